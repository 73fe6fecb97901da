// MixUp and CutMix: what a feeder gives of mixed batches. The samples tell their own numbers, so
// that what a mixture is made of can be read off it.
#include "runtime/data/mixing.h"

#include "runtime/config/load.h"
#include "runtime/data/array.h"
#include "runtime/data/batches.h"
#include "runtime/data/cut_mix.h"
#include "runtime/data/mix_up.h"
#include "runtime/data/mixed_reader.h"
#include "runtime/data/views.h"
#include "runtime/pages.h"
#include "tests/runtime/data/support.h"
#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

namespace meshwork::mixing_test {

using namespace meshwork::test;

namespace {

constexpr std::int64_t height = 7, width = 5, channels = 2;

/// Sample i: an image of uint8 whose values are i, its mask, whose values are i too, its class i in
/// int64, and the weight i.
std::shared_ptr<const Source> samples(std::int64_t rows, Shape mask_shape = {height, width, 1}) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> mask;
  std::vector<std::int64_t> labels;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < rows; ++i) {
    pixels.insert(pixels.end(), height * width * channels, static_cast<std::uint8_t>(i));
    mask.insert(mask.end(), height * width, static_cast<std::int32_t>(i));
    labels.push_back(i);
    weights.push_back(static_cast<float>(i));
  }
  mask_shape.insert(mask_shape.begin(), rows);
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("image", std::move(pixels), {rows, height, width, channels}),
                         Array("mask", std::move(mask), mask_shape, FieldRole::target),
                         Array("label", std::move(labels), {rows}, FieldRole::target),
                         Array("weight", std::move(weights), {rows}, FieldRole::weight)});
}

enum : int { image, mask, label, weight };

/// Fed whole, or the block that `rank` of `mesh` has, by the layouts of the fields.
FeederOptions mixed(const std::shared_ptr<const Source>& source, std::int64_t batch_size,
                    std::vector<SharedMixing> stages,
                    const MeshShape& mesh = MeshShape({{"a", 1}}, 1), std::int64_t rank = 0,
                    const std::vector<Layout>& layouts = {}) {
  FeederOptions options{.source = as_mixed(with_one_hot(source, label, source->rows()), stages),
                        .batch_size = batch_size,
                        .shuffle = true,
                        .seed = 4,
                        .augment = std::move(stages)};
  for (int field = 0; field < options.source->field_count(); ++field) {
    FeedField feed{.field = field};
    for (const std::int64_t rows : batch_row_counts(source->rows(), batch_size)) {
      Shape shape = options.source->field(field).shape;
      shape.insert(shape.begin(), rows);
      feed.blocks.push_back(
          layouts.empty() ? whole(shape)
                          : block_of(layouts[static_cast<std::size_t>(field)], shape, mesh, rank));
    }
    options.fields.push_back(std::move(feed));
  }
  return options;
}

std::vector<float> values(const HostBatch& batch, std::size_t field) {
  const auto* first = reinterpret_cast<const float*>(batch.fields[field]);
  return {first, first + batch.bytes[field] / 4};
}

/// A row of a batch: the sample that it was, and its partner, with their shares.
struct Parts {
  std::int64_t own = 0, partner = 0;
  float share = 0, rest = 0;
};
/// Of the vector of shares, with the sample's own weight to tell which of two it is.
Parts parts_of(std::span<const float> shares, float own_weight) {
  Parts parts{.own = static_cast<std::int64_t>(own_weight)};
  parts.partner = parts.own;
  parts.share = shares[static_cast<std::size_t>(parts.own)];
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0 || static_cast<std::int64_t>(i) == parts.own) continue;
    CHECK(parts.partner == parts.own);  // there is one
    parts.partner = static_cast<std::int64_t>(i);
    parts.rest = shares[i];
  }
  return parts;
}

std::vector<Parts> parts_of(const HostBatch& batch) {
  const std::vector<float> shares = values(batch, label), weights = values(batch, weight);
  const std::size_t classes = shares.size() / weights.size();
  std::vector<Parts> all;
  for (std::size_t row = 0; row < weights.size(); ++row) {
    all.push_back(parts_of(std::span(shares).subspan(row * classes, classes), weights[row]));
  }
  return all;
}

/// The largest distance of the distribution of `drawn` from `distribution`, times the root of their
/// number (Kolmogorov and Smirnov): above 1.95 once in a thousand.
template <class Distribution>
double distance(std::vector<double> drawn, const Distribution& distribution) {
  std::ranges::sort(drawn);
  const double count = static_cast<double>(drawn.size());
  double largest = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double expected = distribution(drawn[i]);
    largest = std::max({largest, std::abs(expected - static_cast<double>(i) / count),
                        std::abs(expected - static_cast<double>(i + 1) / count)});
  }
  return largest * std::sqrt(count);
}

std::vector<double> shares(double alpha, std::int64_t count = 20000) {
  std::vector<double> drawn;
  for (std::int64_t row = 0; row < count; ++row) drawn.push_back(RowDraws(5, 2, row).beta(alpha));
  return drawn;
}

/// The elements in `block` of `all`, whose shape is `shape`.
std::vector<float> part_of(const std::vector<float>& all, const Shape& shape, const Block& block) {
  std::vector<float> part;
  for (std::size_t index = 0; index < all.size(); ++index) {
    auto rest = static_cast<std::int64_t>(index);
    bool inside = true;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      inside = inside && rest % shape[d] >= block[d].begin && rest % shape[d] < block[d].end;
    }
    if (inside) part.push_back(all[index]);
  }
  return part;
}

}  // namespace

TEST_CASE("uniform draws are uniform, and others for each row, batch and key") {
  std::vector<double> drawn;
  for (std::int64_t row = 0; row < 2000; ++row) {
    RowDraws draws(9, 3, row);
    for (int i = 0; i < 10; ++i) drawn.push_back(draws.uniform());
  }
  CHECK(distance(drawn, [](double x) { return x; }) < 1.95);
  CHECK(std::set<double>(drawn.begin(), drawn.end()).size() == drawn.size());
  for (const double number : {RowDraws(8, 3, 0).uniform(), RowDraws(9, 2, 0).uniform()}) {
    CHECK(std::ranges::count(drawn, number) == 0);
  }
}

TEST_CASE("shares follow the distribution Beta") {
  CHECK(distance(shares(1), [](double x) { return x; }) < 1.95);
  // Beta(1/2, 1/2) is the distribution of the arc sine.
  CHECK(distance(shares(0.5),
                 [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }) < 1.95);
  // Variance 1 / (4 (2a + 1)), within four standard errors.
  for (const double alpha : {0.05, 0.2, 1.0}) {
    double squares = 0, fourth = 0;
    const std::vector<double> drawn = shares(alpha);
    for (const double x : drawn) {
      squares += (x - 0.5) * (x - 0.5);
      fourth += std::pow(x - 0.5, 4);
    }
    const double count = static_cast<double>(drawn.size());
    const double variance = squares / count;
    const double error = std::sqrt((fourth / count - variance * variance) / count);
    CHECK(std::abs(variance - 1 / (4 * (2 * alpha + 1))) < 4 * error);
  }
  // Of a vanishing alpha, one of the two is all.
  for (const double x : shares(1e-6, 100)) CHECK((x < 1e-9 || x > 1 - 1e-9));
}

TEST_CASE("MixUp blends each sample of a batch with another one, images and targets alike") {
  const auto source = samples(30);
  Feeder feeder(mixed(source, 30, {MixUp({.alpha = 0.8})}));
  for (int epoch = 0; epoch < 3; ++epoch) {
    const HostBatch& batch = *feeder.next();
    const std::vector<float> images = values(batch, image), masks = values(batch, mask);
    std::set<std::int64_t> own, partners;
    std::size_t row = 0;
    for (const Parts& parts : parts_of(batch)) {
      own.insert(parts.own);
      partners.insert(parts.partner);
      const auto a = static_cast<float>(parts.own), b = static_cast<float>(parts.partner);
      if (parts.own != parts.partner) CHECK(parts.rest == 1 - parts.share);
      for (std::size_t i = 0; i < height * width * channels; ++i) {
        CHECK(images[row * height * width * channels + i] ==
              Approx(parts.share * a + (1 - parts.share) * b));
      }
      CHECK(masks[row * height * width] == Approx(parts.share * a + (1 - parts.share) * b));
      ++row;
    }
    CHECK(own.size() == 30);
    CHECK(partners.size() == 30);
  }
}

TEST_CASE("partners and shares are others in each batch and epoch, and by the seed") {
  const auto first_shares = [](FeederOptions options, BatchPosition position) {
    options.start = position;
    Feeder feeder(std::move(options));
    std::vector<float> found;
    for (const Parts& parts : parts_of(*feeder.next())) {
      found.push_back(parts.share);
    }
    return found;
  };
  const FeederOptions options = mixed(samples(24), 12, {MixUp({.alpha = 1})});
  FeederOptions seeded = options;
  seeded.seed = 5;
  const std::set<std::vector<float>> all{
      first_shares(options, {0, 0}), first_shares(options, {0, 1}), first_shares(options, {1, 0}),
      first_shares(options, {1, 1}), first_shares(seeded, {0, 0})};
  CHECK(all.size() == 5);
  CHECK(first_shares(options, {1, 1}) == first_shares(options, {1, 1}));
}

TEST_CASE("CutMix gives images a rectangle, and targets by its area") {
  const Shape mask_shape = GENERATE(Shape{height, width, 1}, Shape{height, width});
  Feeder feeder(mixed(samples(40, mask_shape), 40, {CutMix()}));
  int inside = 0;
  constexpr int epochs = 20;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const HostBatch& batch = *feeder.next();
    const std::vector<float> images = values(batch, image), masks = values(batch, mask);
    std::size_t row = 0;
    for (const Parts& parts : parts_of(batch)) {
      const float* pixel = images.data() + row * height * width * channels;
      std::vector<std::int64_t> rows, columns;
      std::int64_t cut = 0;
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          const float value = pixel[(y * width + x) * channels];
          CHECK(pixel[(y * width + x) * channels + 1] == value);
          // A mask is cut as its image is.
          CHECK(masks[row * height * width + static_cast<std::size_t>(y * width + x)] == value);
          if (parts.partner == parts.own) continue;
          if (value == static_cast<float>(parts.partner)) {
            rows.push_back(y);
            columns.push_back(x);
            ++cut;
          } else {
            CHECK(value == static_cast<float>(parts.own));
          }
        }
      }
      ++row;
      if (parts.partner == parts.own) continue;
      if (cut == 0) continue;
      ++inside;
      const auto [top, bottom] = std::ranges::minmax(rows);
      const auto [left, right] = std::ranges::minmax(columns);
      CHECK((bottom - top + 1) * (right - left + 1) == cut);
      // Sides have one share of height and width; of pixels one more or less.
      const double size = std::sqrt(1 - static_cast<double>(parts.share));
      CHECK(std::abs(static_cast<double>(bottom - top + 1) - size * height) <= 1);
      CHECK(std::abs(static_cast<double>(right - left + 1) - size * width) <= 1);
    }
  }
  CHECK(inside > epochs * 10);
}

TEST_CASE("a rectangle begins anywhere and stays inside") {
  const SharedMixing mixing = CutMix({.factor = {1, 1}});
  std::vector<double> places, areas;
  for (std::int64_t row = 0; row < 5000; ++row) {
    const Mixture mixture = mixing->draw(3, 1, row);
    const Rectangle& cut = *mixture.from_partner;
    const double size = std::sqrt(1 - static_cast<double>(mixture.share));
    for (const Extent& side : {cut.rows, cut.columns}) {
      CHECK(side.begin >= 0);
      CHECK(side.end <= 1 + 1e-12);
      CHECK(side.end - side.begin == Approx(size).margin(1e-6));
      if (size < 0.999) places.push_back(side.begin / (1 - (side.end - side.begin)));
    }
    CHECK(cut.rows.begin != cut.columns.begin);
    areas.push_back(1 - static_cast<double>(mixture.share));
  }
  CHECK(distance(places, [](double x) { return x; }) < 1.95);
  CHECK(distance(areas, [](double x) { return x; }) < 1.95);  // of Beta(1, 1)
}

// Of both orders, as Keras's layer takes them; one number stands for those from 0 on.
TEST_CASE("rectangles vary as CutMix's factor says") {
  Catalog catalog;
  add_runtime(catalog);
  const auto written = [&](const std::string& factor) {
    return catalog.make<SharedMixing>(parse_config("CutMix: {factor: " + factor + "}", "run.yaml"));
  };
  CHECK(to_text(written("0.5")) == "CutMix of factor (0, 0.5)");
  CHECK(to_text(written("[0.25, 0.75]")) == "CutMix of factor (0.25, 0.75)");
  CHECK(to_text(written("[0.75, 0.25]")) == "CutMix of factor (0.25, 0.75)");
  CHECK(to_text(CutMix({.factor = {0.75, 0.25}})) == "CutMix of factor (0.25, 0.75)");
  // Each batch draws a of (least, most); the share of one row is of Beta(a, a), whose variance is
  // 1 / (4 (2 a + 1)): integrated over a, (log(2 most + 1) - log(2 least + 1)) / (8 (most - least)).
  const auto check = [](const CutFactor& factor) {
    constexpr int batches = 20000;
    double squares = 0, fourth = 0;
    for (int batch = 0; batch < batches; ++batch) {
      const double x = static_cast<double>(CutMix({factor})->draw(7, batch, 0).share) - 0.5;
      squares += x * x / batches;
      fourth += std::pow(x, 4) / batches;
    }
    const double expected = (std::log(2 * factor.high + 1) - std::log(2 * factor.low + 1)) /
                            (8 * (factor.high - factor.low));
    CHECK(std::abs(squares - expected) < 4 * std::sqrt((fourth - squares * squares) / batches));
  };
  check(0.25);
  check({0.5, 1});
  check({1, 0.5});
}

TEST_CASE("the second of two stages mixes what the first has mixed") {
  const auto source = samples(16);
  const std::vector<SharedMixing> both{MixUp({.alpha = 1}), MixUp({.alpha = 0.5})};
  Feeder first(mixed(source, 16, {both[0]})), feeder(mixed(source, 16, both));
  const HostBatch& once = *first.next();
  const std::vector<float> before = values(once, label), weights = values(once, weight);
  const std::vector<float> after = values(*feeder.next(), label);
  // Rows of `after` are w times the row of `before` and the rest of another one.
  std::set<std::size_t> partners;
  for (std::size_t row = 0; row < 16; ++row) {
    int found = 0;
    for (std::size_t other = 0; other < 16; ++other) {
      const auto* a = &before[row * 16];
      const auto* b = &before[other * 16];
      double ab = 0, bb = 0;  // the best share, by least squares
      for (std::size_t i = 0; i < 16; ++i) {
        const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        ab += d * (static_cast<double>(after[row * 16 + i]) - static_cast<double>(b[i]));
        bb += d * d;
      }
      const double share = bb > 0 ? ab / bb : 1;
      double away = 0;
      for (std::size_t i = 0; i < 16; ++i) {
        away +=
            std::abs(share * static_cast<double>(a[i]) + (1 - share) * static_cast<double>(b[i]) -
                     static_cast<double>(after[row * 16 + i]));
      }
      if (away < 1e-5 && share >= 0 && share <= 1) {
        ++found;
        partners.insert(other);
      }
    }
    CHECK(found >= 1);
  }
  CHECK(partners.size() >= 15);
}

TEST_CASE("the blocks of all ranks together are the mixed batch, also of images that are split") {
  const MeshShape mesh({{"data", 2}, {"h", 3}, {"w", 2}}, 12);
  const Layout images{{{0}, {1}, {2}, {}}, {}};
  const std::vector<Layout> layouts{images, images, {{{0}, {1}}, {}}, {{{0}}, {}}};
  const auto source = samples(13);
  for (const std::vector<SharedMixing>& stages :
       {std::vector<SharedMixing>{MixUp()}, {CutMix()}, {CutMix(), MixUp({.alpha = 1})}}) {
    Feeder whole_feeder(mixed(source, 5, stages));
    std::vector<std::unique_ptr<Feeder>> feeders;
    std::vector<FeederOptions> options;
    for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
      options.push_back(mixed(source, 5, stages, mesh, rank, layouts));
      feeders.push_back(std::make_unique<Feeder>(options.back()));
    }
    for (int i = 0; i < 6; ++i) {
      const HostBatch& whole_batch = *whole_feeder.next();
      for (std::size_t rank = 0; rank < feeders.size(); ++rank) {
        const HostBatch& part = *feeders[rank]->next();
        for (std::size_t field = 0; field < 4; ++field) {
          const Block& block = options[rank].fields[field].blocks[part.row_count_index];
          const std::vector<float> all = values(whole_batch, field);
          Shape shape = options[rank].source->field(static_cast<int>(field)).shape;
          shape.insert(shape.begin(), part.rows);
          CHECK(values(part, field) == part_of(all, shape, block));
        }
      }
    }
  }
}

TEST_CASE("class numbers become vectors, of which a rank reads its classes") {
  const auto source = with_one_hot(samples(4), label, 6);
  CHECK(to_string(source->field(label)) == "label uint8 (6)");
  CHECK(read_block<std::uint8_t>(*source, label, {3, 0}, {{0, 6}}) ==
        std::vector<std::uint8_t>{0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0});
  CHECK(read_block<std::uint8_t>(*source, label, {3, 0}, {{1, 4}}) ==
        std::vector<std::uint8_t>{0, 0, 1, 0, 0, 0});
  CHECK(read_block<std::uint8_t>(*source, image, {2}, {{0, 1}, {0, 1}, {0, 2}}) ==
        std::vector<std::uint8_t>{2, 2});
  // A last dimension of 1 gives way to the classes.
  const auto masks = with_one_hot(samples(4), mask, 5);
  CHECK(masks->field(mask).shape == Shape{height, width, 5});
  CHECK(read_block<std::uint8_t>(*masks, mask, {1}, {{6, 7}, {0, 2}, {0, 5}}) ==
        std::vector<std::uint8_t>{0, 1, 0, 0, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("a number that is no class is an error that names sample and number") {
  const auto source = with_one_hot(samples(9), label, 7);
  CHECK(read_block<std::uint8_t>(*source, label, {6}, {{5, 7}}) == std::vector<std::uint8_t>{0, 1});
  CHECK_THROWS_WITH(read_block<std::uint8_t>(*source, label, {6, 8}, {{0, 7}}),
                    Catch::Contains("sample 8") && Catch::Contains("label 8 is out of range") &&
                        Catch::Contains("from 0 to 6"));
  const auto halves =
      with_one_hot(std::make_shared<ArraySource>(std::vector<Array>{
                       Array("x", std::vector<float>{1, 2}, {2}),
                       Array("t", std::vector<float>{1, 0.5f}, {2}, FieldRole::target)}),
                   1, 2);
  CHECK_THROWS_WITH(read_block<std::uint8_t>(*halves, 1, {1}, {{0, 2}}),
                    Catch::Contains("label 0.5 is out of range"));
  CHECK_THROWS_WITH(with_one_hot(samples(1), label, 0), Catch::Contains("with 0 classes"));
}

TEST_CASE("numbers of any type are read as float32") {
  const auto source = as_float32(as_float32(samples(3), image), label);
  CHECK(read_block<float>(*source, image, {2, 1}, {{3, 4}, {1, 3}, {0, 1}}) ==
        std::vector<float>{2, 2, 1, 1});
  CHECK(read_block<float>(*source, label, {2, 0}, {}) == std::vector<float>{2, 0});
  CHECK(as_float32(source, image) == source);
}

TEST_CASE("options of stages that do not fit are errors") {
  CHECK_THROWS_WITH(MixUp({.alpha = 0}),
                    Catch::Contains("MixUp: alpha: expected a number between 1e-06 and 1"));
  CHECK_THROWS_WITH(MixUp({.alpha = 1.5}), Catch::Contains("between 1e-06 and 1"));
  CHECK_THROWS_WITH(CutMix({.factor = 2}), Catch::Contains("CutMix: factor: expected a number"));
  CHECK_THROWS_WITH(CutMix({.factor = {0.5, 1.5}}), Catch::Contains("CutMix: factor: expected a"));
  CHECK(to_text(CutMix({.factor = 0.5})) == "CutMix of factor (0, 0.5)");
  CHECK(to_text(MixUp()) == "MixUp of alpha 0.2");
}

}  // namespace meshwork::mixing_test
