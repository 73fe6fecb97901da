#include "runtime/data/mix_up.h"

#include "runtime/config/options.h"

namespace meshwork {

template <class Visitor>
void describe(MixUpOptions& options, Visitor& option) {
  option.about("blends each sample with another one of its batch, and their targets alike");
  option("alpha", options.alpha, between(1e-6, 1),
         "how much is blended: shares are of Beta(alpha, alpha)");
}

namespace {

class MixUpMixing final : public Mixing {
 public:
  explicit MixUpMixing(const MixUpOptions& options) : options_(options) {}

  std::string class_name() const override { return "MixUp"; }
  std::string options() const override { return words_of(settings_of(options_)); }
  Mixture draw(std::uint64_t key, std::int64_t batch, std::int64_t row) const override {
    return {.share = static_cast<float>(RowDraws(key, batch, row).beta(options_.alpha))};
  }

 private:
  MixUpOptions options_;
};

}  // namespace

SharedMixing MixUp(const MixUpOptions& options) {
  check_options("MixUp", options);
  return std::make_shared<MixUpMixing>(options);
}

void add_mix_up(Catalog& catalog) {
  catalog.add<SharedMixing, MixUpOptions>("MixUp", {}, MixUp);
}

}  // namespace meshwork
