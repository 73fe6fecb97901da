// Batches and the feeder. Blocks come from layouts on meshes that are not there: the tests play all
// ranks in turn.
#include "runtime/data/batches.h"

#include "runtime/data/array.h"
#include "runtime/data/csv.h"
#include "runtime/data/mix_up.h"
#include "runtime/data/mixed_reader.h"
#include "runtime/data/order.h"
#include "runtime/data/views.h"
#include "tests/runtime/data/support.h"
#include "tests/support/allocations.h"
#include "tests/support/catch.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace meshwork::batches_test {

using namespace meshwork::test;

namespace {

std::shared_ptr<const Source> samples(std::int64_t rows) {
  return std::make_shared<ArraySource>(
      std::vector<Array>{Array("images", counted<std::uint8_t>(rows * 20), {rows, 4, 5}),
                         Array("labels", counted<std::int32_t>(rows), {rows}, FieldRole::target)});
}

/// The field whole, in batches of each row count.
FeedField whole_field(const Source& source, int field, std::int64_t batch_size) {
  FeedField feed{.field = field};
  for (const std::int64_t rows : batch_row_counts(source.rows(), batch_size)) {
    Shape shape = source.field(field).shape;
    shape.insert(shape.begin(), rows);
    feed.blocks.push_back(whole(shape));
  }
  return feed;
}

/// The block of `rank` in batches of each row count.
FeedField split_field(const Source& source, int field, std::int64_t batch_size,
                      const Layout& layout, const MeshShape& mesh, std::int64_t rank) {
  FeedField feed{.field = field};
  for (const std::int64_t rows : batch_row_counts(source.rows(), batch_size)) {
    Shape shape = source.field(field).shape;
    shape.insert(shape.begin(), rows);
    feed.blocks.push_back(block_of(layout, shape, mesh, rank));
  }
  return feed;
}

FeederOptions options_for(std::shared_ptr<const Source> source, std::int64_t batch_size) {
  FeederOptions options{.source = source, .batch_size = batch_size};
  for (int field = 0; field < source->field_count(); ++field) {
    options.fields.push_back(whole_field(*source, field, batch_size));
  }
  return options;
}

template <class T>
std::vector<T> elements(const HostBatch& batch, std::size_t field) {
  std::vector<T> values(static_cast<std::size_t>(batch.bytes[field]) / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), batch.fields[field], values.size() * sizeof(T));
  return values;
}

/// Position and labels of the next batch, "0.1: 4 5 6", or "end".
std::string next_text(Feeder& feeder, std::size_t label_field = 1) {
  const HostBatch* batch = feeder.next();
  if (batch == nullptr) return "end";
  std::string text = fmt::format("{}.{}:", batch->position.epoch, batch->position.batch);
  for (const std::int32_t label : elements<std::int32_t>(*batch, label_field)) {
    text += fmt::format(" {}", label);
  }
  return text;
}

/// Fails where row `bad_row` is read, counts the readings, and can take its time.
class FailingSource final : public Source {
 public:
  FailingSource(std::shared_ptr<const Source> source, std::int64_t bad_row)
      : Source(source->rows(), source->fields(), "failing"),
        source_(std::move(source)),
        bad_row_(bad_row) {}
  [[nodiscard]] std::string fingerprint() const override { return "failing"; }
  mutable std::atomic<int> reads = 0;
  int milliseconds = 0;

 private:
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    ++reads;
    if (milliseconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    for (const std::int64_t row : rows) {
      if (row == bad_row_) fail("row {} is bad", row);
    }
    source_->read(field, rows, block, destination);
  }
  std::shared_ptr<const Source> source_;
  std::int64_t bad_row_;
};

// What feeding one epoch of batches ends with, or "".
std::string error_of_an_epoch(FeederOptions options) {
  options.epochs = 1;
  try {
    Feeder feeder(options);
    while (feeder.next() != nullptr) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a feeder lists the samples of the global batch, those that it would have read") {
  for (const Prefetch prefetch : {Prefetch::never, Prefetch::always}) {
    FeederOptions options = options_for(samples(23), 5);
    options.shuffle = true;
    options.seed = 9;
    options.epochs = 3;
    options.prefetch = prefetch;
    Feeder reading(options);
    options.fields.clear();
    options.lists_samples = true;
    Feeder listing(options);
    std::int64_t batches = 0;
    while (const HostBatch* read = reading.next()) {
      const HostBatch* listed = listing.next();
      REQUIRE(listed != nullptr);
      CHECK(listed->position == read->position);
      CHECK(read->samples.empty());
      CHECK(listed->fields.empty());
      // Label r of `samples` is r.
      const std::vector<std::int32_t> labels = elements<std::int32_t>(*read, 1);
      CHECK(std::vector<std::int32_t>(listed->samples.begin(), listed->samples.end()) == labels);
      ++batches;
    }
    CHECK(listing.next() == nullptr);
    CHECK(batches == 15);
  }
}

TEST_CASE("batches cover every position once, the last is short") {
  for (std::int64_t rows = 0; rows < 40; ++rows) {
    for (std::int64_t batch_size = 1; batch_size < 45; ++batch_size) {
      std::int64_t expected = 0;
      const auto counts = batch_row_counts(rows, batch_size);
      for (std::int64_t i = 0; i < batch_count(rows, batch_size); ++i) {
        const Range range = batch_range(rows, batch_size, i);
        REQUIRE(range.begin == expected);
        REQUIRE(range.length() > 0);
        REQUIRE(std::ranges::find(counts, range.length()) != counts.end());
        REQUIRE((range.length() == batch_size || range.end == rows));
        expected = range.end;
      }
      REQUIRE(expected == rows);
    }
  }
  CHECK(batch_row_counts(10, 4) == std::vector<std::int64_t>{4, 2});
  CHECK(batch_row_counts(8, 4) == std::vector<std::int64_t>{4});
  CHECK(batch_row_counts(3, 4) == std::vector<std::int64_t>{3});
  CHECK(batch_row_counts(0, 4).empty());
}

TEST_CASE("batchings that cannot work are errors that say what would") {
  check_batching(10, 10, 1, 10, "data", "training data");
  check_batching(10, 4, 1, 4, "data",
                 "training data");  // the last batch of 2 rows leaves 2 ranks empty
  CHECK_THROWS_WITH(check_batching(128, 256, 1, 2, "data", "training data"),
                    "training data: batch_size 256 is larger than the data, which has 128 samples; "
                    "choose 128 or less");
  CHECK_THROWS_WITH(check_batching(128, 4, 1, 8, "batch", "validation data"),
                    "validation data: batch_size 4 gives no row to some of the 8 ranks along axis "
                    "\"batch\"; choose 8 or more (batch_size is global), or a shorter axis");
  check_batching(128, 8, 4, 2, "data", "training data");
  CHECK_THROWS_WITH(check_batching(128, 8, 5, 2, "data", "training data"),
                    Catch::Contains("5 microbatches are too many for batch_size 8") &&
                        Catch::Contains("2 ranks share the rows of each; choose 4 or fewer"));
  CHECK_THROWS_WITH(
      check_batching(128, 8, 9, 1, "data", "training data"),
      "training data: 9 microbatches are too many for batch_size 8: each has a row at "
      "least; choose 8 or fewer");
  CHECK_THROWS_WITH(check_batching(0, 4, 1, 1, "data", "training data"),
                    Catch::Contains("no samples"));
  CHECK_THROWS_WITH(check_batching(4, 0, 1, 1, "data", "training data"),
                    Catch::Contains("batch_size is 0"));
}

TEST_CASE("an epoch delivers every sample once, in the order of its epoch") {
  const auto source = samples(23);
  for (const Prefetch prefetch : {Prefetch::never, Prefetch::when_slow, Prefetch::always}) {
    FeederOptions options = options_for(source, 5);
    options.shuffle = true;
    options.seed = 9;
    options.prefetch = prefetch;
    Feeder feeder(options);
    CHECK(feeder.batches_per_epoch() == 5);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const SampleOrder order = SampleOrder::shuffled(23, 9, epoch);
      std::int64_t position = 0;
      for (std::int64_t i = 0; i < 5; ++i) {
        const HostBatch* batch = feeder.next();
        REQUIRE(batch != nullptr);
        CHECK(batch->position == BatchPosition{epoch, i});
        CHECK(batch->rows == (i == 4 ? 3 : 5));
        CHECK(batch->row_count_index == (i == 4 ? 1U : 0U));
        CHECK(batch->first_row == 5 * i);
        std::vector<std::int64_t> rows(static_cast<std::size_t>(batch->rows));
        for (std::int64_t& row : rows) row = order.at(position++);
        CHECK(elements<std::uint8_t>(*batch, 0) ==
              read_block<std::uint8_t>(*source, 0, rows, {{0, 4}, {0, 5}}));
        CHECK(elements<std::int32_t>(*batch, 1) == read_block<std::int32_t>(*source, 1, rows, {}));
        CHECK(reinterpret_cast<std::uintptr_t>(batch->fields[0]) % 64 == 0);
      }
      CHECK(position == 23);
    }
  }
}

TEST_CASE("without shuffling batches come in the order of the data and epochs end where asked") {
  for (const Prefetch prefetch : {Prefetch::never, Prefetch::when_slow, Prefetch::always}) {
    FeederOptions options = options_for(samples(7), 3);
    options.prefetch = prefetch;
    options.epochs = 2;
    Feeder feeder(options);
    for (const char* text : {"0.0: 0 1 2", "0.1: 3 4 5", "0.2: 6", "1.0: 0 1 2", "1.1: 3 4 5",
                             "1.2: 6", "end", "end"}) {
      CHECK(next_text(feeder) == text);
    }
    feeder.seek({1, 2});
    CHECK(next_text(feeder) == "1.2: 6");
    CHECK(next_text(feeder) == "end");
    feeder.seek({2, 0});
    CHECK(next_text(feeder) == "end");
  }
}

TEST_CASE("a feeder that starts in the middle continues exactly") {
  FeederOptions options = options_for(samples(23), 5);
  options.shuffle = true;
  options.seed = 4;
  Feeder straight(options);
  std::vector<std::string> all;
  for (int i = 0; i < 15; ++i) all.push_back(next_text(straight));
  for (std::int64_t start = 0; start < 15; ++start) {
    options.start = {start / 5, start % 5};
    Feeder resumed(options);
    straight.seek(options.start);
    for (std::int64_t i = start; i < std::min<std::int64_t>(15, start + 6); ++i) {
      REQUIRE(next_text(resumed) == all[i]);
      REQUIRE(next_text(straight) == all[i]);
    }
  }
}

TEST_CASE("a batch larger than the data is one short batch") {
  FeederOptions options = options_for(samples(3), 8);
  options.epochs = 1;
  Feeder feeder(options);
  CHECK(next_text(feeder) == "0.0: 0 1 2");
  CHECK(next_text(feeder) == "end");
}

TEST_CASE("fields can be left out and come in the order asked for") {
  const auto source = samples(6);
  FeederOptions options{.source = source, .fields = {whole_field(*source, 1, 4)}, .batch_size = 4};
  Feeder feeder(options);
  CHECK(next_text(feeder, 0) == "0.0: 0 1 2 3");
}

TEST_CASE("the blocks of all ranks together are the batch, for any layout and uneven sizes") {
  const auto source = samples(13);
  const MeshShape mesh({{"data", 3}, {"model", 2}}, 6);
  const std::vector<Layout> layouts{
      {{{}, {}, {}}, {}},     {{{0}, {}, {}}, {}},    {{{0}, {1}, {}}, {}},  {{{1}, {}, {0}}, {}},
      {{{}, {0, 1}, {}}, {}}, {{{0, 1}, {}, {}}, {}}, {{{1, 0}, {}, {}}, {}}};
  constexpr std::int64_t batch_size = 5;  // 5, 5, 3 rows: fewer than the 6 ranks
  for (const Layout& layout : layouts) {
    Feeder whole_feeder(options_for(source, batch_size));
    std::vector<std::unique_ptr<Feeder>> feeders;
    for (std::int64_t rank = 0; rank < 6; ++rank) {
      feeders.push_back(std::make_unique<Feeder>(
          FeederOptions{.source = source,
                        .fields = {split_field(*source, 0, batch_size, layout, mesh, rank)},
                        .batch_size = batch_size}));
    }
    for (int i = 0; i < 4; ++i) {
      const HostBatch& all = *whole_feeder.next();
      const Shape shape{all.rows, 4, 5};
      std::vector<int> joined(static_cast<std::size_t>(all.rows * 20), -1);
      std::int64_t owned = 0;
      for (std::int64_t rank = 0; rank < 6; ++rank) {
        const HostBatch& part = *feeders[rank]->next();
        const std::vector<std::uint8_t> values = elements<std::uint8_t>(part, 0);
        const Block block = block_of(layout, shape, mesh, rank);
        if (owns_block(layout, mesh, rank)) owned += static_cast<std::int64_t>(values.size());
        std::size_t next = 0;
        for (std::int64_t a = block[0].begin; a < block[0].end; ++a) {
          for (std::int64_t b = block[1].begin; b < block[1].end; ++b) {
            for (std::int64_t c = block[2].begin; c < block[2].end; ++c) {
              joined[(a * 4 + b) * 5 + c] = values.at(next++);
            }
          }
        }
        REQUIRE(next == values.size());
      }
      CHECK(owned == all.rows * 20);
      const std::vector<std::uint8_t> expected = elements<std::uint8_t>(all, 0);
      CHECK(joined == std::vector<int>(expected.begin(), expected.end()));
    }
  }
}

TEST_CASE("the batch in the caller's hands is left alone while the next ones are assembled") {
  const auto source = samples(100);
  FeederOptions options = options_for(source, 1);
  options.prefetch = GENERATE(Prefetch::when_slow, Prefetch::always);
  Feeder feeder(options);
  for (std::int64_t i = 0; i < 100; ++i) {
    const HostBatch* batch = feeder.next();
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE(elements<std::int32_t>(*batch, 1) == std::vector<std::int32_t>{static_cast<int>(i)});
  }
}

TEST_CASE("prefetching stays one batch ahead") {
  const auto source = std::make_shared<FailingSource>(samples(100), -1);
  Feeder feeder({.source = source,
                 .fields = {whole_field(*source, 1, 1)},
                 .batch_size = 1,
                 .prefetch = Prefetch::always});
  CHECK(source->reads == 0);
  (void)feeder.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(source->reads == 2);
}

TEST_CASE("slow batches are read ahead from the fourth on, and come in their order") {
  const auto source = std::make_shared<FailingSource>(samples(100), -1);
  source->milliseconds = 1;
  Feeder feeder({.source = source, .fields = {whole_field(*source, 1, 1)}, .batch_size = 1});
  for (int i = 0; i < 3; ++i) {
    CHECK(next_text(feeder, 0) == fmt::format("0.{0}: {0}", i));
    CHECK(source->reads == i + 1);
  }
  CHECK(next_text(feeder, 0) == "0.3: 3");
  while (source->reads < 5) std::this_thread::yield();  // without being asked
  CHECK(next_text(feeder, 0) == "0.4: 4");
  feeder.seek({1, 98});
  CHECK(next_text(feeder, 0) == "1.98: 98");
  CHECK(next_text(feeder, 0) == "1.99: 99");
  CHECK(next_text(feeder, 0) == "2.0: 0");
}

TEST_CASE("after the first batches nothing is allocated") {
  const auto source = cached(with_shape(samples(23), 0, {4, 5, 1}));
  // Slow batches have their thread after three; fast ones get it whenever the machine makes three
  // in a row slow.
  const auto slow = std::make_shared<FailingSource>(source, -1);
  slow->milliseconds = 1;
  using Case = std::pair<std::shared_ptr<const Source>, Prefetch>;
  for (const auto& [from, prefetch] :
       {Case{source, Prefetch::never}, Case{slow, Prefetch::when_slow},
        Case{source, Prefetch::always}}) {
    FeederOptions options = options_for(from, 5);
    options.fields[1].classes = 251;
    options.shuffle = true;
    options.prefetch = prefetch;
    Feeder feeder(options);
    for (int i = 0; i < 10; ++i)
      (void)feeder.next();  // all rows have been read, batches of both sizes
    const long before = allocations;
    for (int i = 0; i < 50; ++i) (void)feeder.next();
    CHECK(allocations == before);
  }
}

TEST_CASE("after the first mixed batches nothing is allocated") {
  const std::vector<SharedMixing> stages{MixUp(), MixUp({.alpha = 1})};
  FeederOptions options = options_for(as_mixed(with_one_hot(samples(23), 1, 23), stages), 5);
  options.shuffle = true;
  options.augment = stages;
  options.prefetch = Prefetch::never;
  Feeder feeder(options);
  for (int i = 0; i < 10; ++i) (void)feeder.next();
  const long before = allocations;
  for (int i = 0; i < 50; ++i) (void)feeder.next();
  CHECK(allocations == before);
}

TEST_CASE("an error in reading arrives with its batch and stays") {
  for (const Prefetch prefetch : {Prefetch::never, Prefetch::when_slow, Prefetch::always}) {
    FeederOptions options = options_for(std::make_shared<FailingSource>(samples(9), 7), 3);
    options.prefetch = prefetch;
    Feeder feeder(options);
    CHECK(next_text(feeder) == "0.0: 0 1 2");
    CHECK(next_text(feeder) == "0.1: 3 4 5");
    CHECK_THROWS_WITH(feeder.next(), "row 7 is bad");
    CHECK_THROWS_WITH(feeder.next(), "row 7 is bad");
    feeder.seek({1, 1});
    CHECK(next_text(feeder) == "1.1: 3 4 5");
    CHECK_THROWS_WITH(feeder.next(), "row 7 is bad");
  }
}

TEST_CASE("a feeder stops cleanly at any time") {
  for (int taken = 0; taken < 6; ++taken) {
    for (const int milliseconds : {0, 1}) {
      for (const std::int64_t bad_row : {-1, 7}) {
        const auto source = std::make_shared<FailingSource>(samples(30), bad_row);
        source->milliseconds = milliseconds;
        FeederOptions options = options_for(source, 4);
        options.prefetch = Prefetch::always;
        Feeder feeder(options);
        for (int i = 0; i < taken; ++i) {
          try {
            (void)feeder.next();
          } catch (const Error&) {
            CHECK(bad_row == 7);
          }
        }
        if (taken % 2 == 0) feeder.seek({taken, 1});
      }
    }
  }
}

TEST_CASE("labels out of range are an error that names file, sample and label") {
  const auto check = []<class T>(std::vector<T> labels, const std::string& message) {
    const auto count = static_cast<std::int64_t>(labels.size());
    const auto source = std::make_shared<Subset>(
        std::make_shared<ArraySource>(
            std::vector<Array>{Array("x", counted<float>(count), {count}),
                               Array("labels", std::move(labels), {count}, FieldRole::target)}),
        1, count);
    FeederOptions options = options_for(source, 4);
    options.fields[1].classes = 10;
    CHECK(error_of_an_epoch(std::move(options)) == message);
  };
  const std::string rest = " is out of range; with 10 classes labels are whole numbers from 0 to 9";
  check(std::vector<std::uint8_t>{99, 0, 1, 9, 9, 0}, "");  // sample 0 is not in the subset
  check(std::vector<std::uint8_t>{0, 0, 1, 9, 9, 10},
        "array \"labels\": sample 5: label 10" + rest);
  check(std::vector<std::int32_t>{0, 0, -1, 9, 9, 10},
        "array \"labels\": sample 2: label -1" + rest);
  check(std::vector<std::int64_t>{0, 0, std::int64_t{1} << 40, 9},
        "array \"labels\": sample 2: label 1099511627776" + rest);
  check(std::vector<float>{0, 0, 9, 2.5f}, "array \"labels\": sample 3: label 2.5" + rest);
  check(std::vector<double>{0, 0, 9, std::nan("")}, "array \"labels\": sample 3: label nan" + rest);
  check(std::vector<float>{0, 0, 9, 8}, "");
}

TEST_CASE("a category out of range that has a text is named by it too") {
  write_file("cities.csv", "city\nOslo\nRome\n");
  const CsvField city{.name = "city", .columns = {"city"}};
  FeederOptions options = options_for(
      std::make_shared<CsvSource>(CsvTable{.path = "cities.csv"}, std::vector{city}), 2);
  options.fields[0].classes = 1;
  CHECK_THAT(error_of_an_epoch(std::move(options)),
             Catch::EndsWith("category 1 (\"Rome\") is out of range; with 1 categories they are "
                             "whole numbers from 0 to 0"));
}

TEST_CASE("numbers that are not whole are an error that names array, sample and number") {
  const auto check = []<class T>(std::vector<T> numbers, const std::string& message) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    const auto source = std::make_shared<ArraySource>(
        std::vector<Array>{Array("x", counted<float>(count), {count}),
                           Array("t", std::move(numbers), {count}, FieldRole::target)});
    FeederOptions options = options_for(source, 3);
    options.fields[1].whole = true;
    CHECK(error_of_an_epoch(std::move(options)) == message);
  };
  const std::string rest = " is no whole number of 32 bits, which \"t\" has to be";
  check(std::vector<float>{-7, 2e9f, 1, 1.5f}, "array \"t\": sample 3: 1.5" + rest);
  check(std::vector<float>{4e9f}, "array \"t\": sample 0: 4000000000" + rest);
  check(std::vector<double>{0, std::nan("")}, "array \"t\": sample 1: nan" + rest);
  check(std::vector<std::int64_t>{0, std::int64_t{1} << 31},
        "array \"t\": sample 1: 2147483648" + rest);
  check(std::vector<std::int64_t>{-(std::int64_t{1} << 31), (std::int64_t{1} << 31) - 1}, "");
}

TEST_CASE("weights that are none are an error that names file, sample and weight") {
  const auto check = []<class T>(std::vector<T> weights, const std::string& message) {
    const auto count = static_cast<std::int64_t>(weights.size());
    const auto source = std::make_shared<ArraySource>(
        std::vector<Array>{Array("x", counted<float>(count), {count}),
                           Array("w", std::move(weights), {count}, FieldRole::weight)});
    FeederOptions options = options_for(source, 4);
    options.fields[1].weights = true;
    CHECK(error_of_an_epoch(std::move(options)) == message);
  };
  const std::string rest = " is no weight; the weights of samples are finite and not negative";
  check(std::vector<float>{0, 1, 0.5f, 3e38f, 1}, "");
  check(std::vector<std::uint8_t>{0, 1, 255, 1, 1}, "");
  check(std::vector<float>{0, 1, 1, 1, -0.5f}, "array \"w\": sample 4: the weight -0.5" + rest);
  check(std::vector<std::int32_t>{0, -1}, "array \"w\": sample 1: the weight -1" + rest);
  check(std::vector<float>{std::nanf(""), 1}, "array \"w\": sample 0: the weight nan" + rest);
  check(std::vector<float>{1, std::numeric_limits<float>::infinity()},
        "array \"w\": sample 1: the weight inf" + rest);
  check(std::vector<double>{1, 1e300}, "array \"w\": sample 1: the weight 1e+300" + rest);
}

TEST_CASE("feeders with blocks or a start that do not fit are errors") {
  const auto source = samples(10);
  FeederOptions options = options_for(source, 4);
  options.fields[0].blocks.pop_back();
  CHECK_THROWS_WITH(Feeder(options),
                    Catch::Contains("2 different row counts, blocks were given for 1"));
  options = options_for(source, 4);
  options.fields[0].blocks[1][0] = {0, 3};
  CHECK_THROWS_WITH(Feeder(options), Catch::Contains("a batch of 2 rows"));
  options = options_for(source, 4);
  options.fields[0].blocks[0][2] = {0, 6};
  CHECK_THROWS_WITH(Feeder(options), Catch::Contains("not inside a sample of field \"images\""));
  options = options_for(source, 4);
  options.start = {0, 3};
  CHECK_THROWS_WITH(Feeder(options),
                    Catch::Contains("batch 3 of epoch 0") && Catch::Contains("3 batches"));
  options = options_for(source, 4);
  options.batch_size = 0;
  CHECK_THROWS_WITH(Feeder(options), Catch::Contains("batch_size is 0"));
  CHECK_THROWS_WITH(Feeder({.source = samples(0), .batch_size = 1}), Catch::Contains("no samples"));
}

}  // namespace meshwork::batches_test
