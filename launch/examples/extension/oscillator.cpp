// Oscillator: a source of samples that a formula gives. Of an oscillation's frequency and damping, its
// path after release:
//
//     x(t) = exp(-d t) cos(2 pi f t), at `times` equal steps of t in [0, 1)
//
// A row is computed from its number and the seed, so that ranks agree on it and none makes rows of
// others. A source in a file reads there what `read_rows` is asked for.
#include <meshwork/extension.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "runtime/data/written_source.h"
#include "runtime/device/philox.h"

namespace mine {

using namespace meshwork;

namespace {

struct OscillatorOptions {
  std::int64_t rows = 0;
  std::int64_t times = 16;
};

template <class Visitor>
void describe(OscillatorOptions& options, Visitor& option) {
  option.about("paths of damped oscillations, of their frequencies and dampings");
  option.required("rows", options.rows, positive, "number of samples");
  option("times", options.times, positive, "places of the path, which are the targets");
}

class Oscillator final : public Source {
 public:
  Oscillator(std::string feature, const OscillatorOptions& options, std::uint64_t seed)
      : Source(options.rows,
               {{.name = std::move(feature), .shape = {2}},
                {.name = "targets", .shape = {options.times}, .role = FieldRole::target}},
               "oscillator"),
        times_(options.times),
        seed_(seed),
        key_(random_key(seed, "oscillator")) {}

  std::string fingerprint() const override {
    return fmt::format("oscillator: {} rows, {} times, seed {}", rows(), times_, seed_);
  }

 private:
  // Of each sample the elements in `block`, which has one interval, as the fields have one dimension.
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override {
    for (const std::int64_t row : rows) {
      const auto words = philox(key_, static_cast<std::uint64_t>(row), 0);
      const float frequency = 0.5f + std::ldexp(static_cast<float>(words[0] >> 8), -24);
      const float damping = 2 * std::ldexp(static_cast<float>(words[1] >> 8), -24);
      for (std::int64_t i = block[0].begin; i < block[0].end; ++i) {
        const float t = static_cast<float>(i) / static_cast<float>(times_);
        const float value =
            field == 0
                ? (i == 0 ? frequency : damping)
                : std::exp(-damping * t) * std::cos(2 * std::numbers::pi_v<float> * frequency * t);
        std::memcpy(destination, &value, sizeof value);
        destination += sizeof value;
      }
    }
  }

  std::int64_t times_;
  std::uint64_t seed_;
  std::uint64_t key_;
};

std::shared_ptr<const Source> open_oscillator(const ConfigNode& node,
                                              const OscillatorOptions& options,
                                              const SourceContext& context) {
  if (context.inputs.size() != 1) node.fail("an oscillator is of one input of the model");
  return std::make_shared<Oscillator>(context.inputs[0], options, context.seed);
}

}  // namespace

void add_oscillator(Catalog& catalog) {
  add_source<OscillatorOptions>(catalog, "oscillator", open_oscillator);
}

}  // namespace mine
