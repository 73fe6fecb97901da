#include "runtime/data/cut_mix.h"

#include <cmath>
#include <tuple>

#include "runtime/config/number_pair.h"
#include "runtime/config/options.h"
#include "runtime/device/philox.h"

namespace meshwork {

void from_config(const ConfigNode& node, CutFactor& factor) {
  factor = one_or_two_numbers<double, CutFactor>(node);
}

std::string to_text(const CutFactor& factor) {
  return fmt::format("({}, {})", factor.low, factor.high);
}

std::array<double, 2> numbers_of(const CutFactor& factor) {
  return {factor.low, factor.high};
}

template <class Visitor>
void describe(CutMixOptions& options, Visitor& option) {
  option.about(
      "gives each image a rectangle of another one of its batch, and as much of its targets");
  option("factor", options.factor, between(0, 1),
         "how much sizes of rectangles vary: areas are of Beta(a, a), a of each batch in (least, "
         "most)");
}

namespace {

class CutMixMixing final : public Mixing {
 public:
  explicit CutMixMixing(const CutMixOptions& options) : options_(options) {}

  std::string class_name() const override { return "CutMix"; }
  std::string options() const override { return words_of(settings_of(options_)); }
  bool cuts_images() const override { return true; }

  Mixture draw(std::uint64_t key, std::int64_t batch, std::int64_t row) const override {
    const auto [low, high, least] = std::tuple(options_.factor.low, options_.factor.high, 1e-6);
    RowDraws of_batch(random_key(key, "of the batch"), batch, 0);
    const double alpha = low + (high - low) * of_batch.uniform() + least;
    RowDraws draws(key, batch, row);
    const double share = draws.beta(alpha);
    const double size = std::sqrt(1 - share);
    const auto place = [&] {
      const double begin = draws.uniform() * (1 - size);
      return Extent{begin, begin + size};
    };
    const Extent columns = place();
    return {.share = static_cast<float>(share),
            .from_partner = Rectangle{.rows = place(), .columns = columns}};
  }

 private:
  CutMixOptions options_;
};

}  // namespace

SharedMixing CutMix(const CutMixOptions& options) {
  check_options("CutMix", options);
  return std::make_shared<CutMixMixing>(options);
}

void add_cut_mix(Catalog& catalog) {
  catalog.add<SharedMixing, CutMixOptions>("CutMix", {}, CutMix);
}

}  // namespace meshwork
