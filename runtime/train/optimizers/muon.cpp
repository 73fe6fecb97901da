#include "runtime/train/optimizers/muon.h"

#include <algorithm>
#include <cctype>

#include "runtime/device/kernels/adam.h"
#include "runtime/device/kernels/sgd.h"
#include "runtime/train/optimizers/make.h"

namespace meshwork {

template <class Visitor>
void describe(MuonOptions& options, Visitor& option) {
  option.about("steps along orthogonalized matrices; Adam for all other variables");
  describe_common(options, option);
  option("adam_beta_1", options.adam_beta_1, at_least(0).below(1),
         "share of the gradients' mean kept per step, by Adam");
  option("adam_beta_2", options.adam_beta_2, at_least(0).below(1),
         "share of the squares' mean kept per step, by Adam");
  option("adam_weight_decay", options.adam_weight_decay, float_not_negative,
         "weight_decay of variables that Adam updates");
  option("epsilon", options.epsilon, float_not_negative,
         "added to the root of the squares' mean, by Adam");
  option("exclude_layers", options.exclude_layers,
         "regular expressions; Adam updates variables with a match in their path");
  option("exclude_embeddings", options.exclude_embeddings,
         "Adam updates variables with embedding in their path");
  option("muon_a", options.muon_a, any_finite, "factor of x in the iteration");
  option("muon_b", options.muon_b, any_finite, "factor of x x^T x in the iteration");
  option("muon_c", options.muon_c, any_finite, "factor of (x x^T)^2 x in the iteration");
  option("momentum", options.momentum, between(0, 1), "share of the running sum kept per step");
  option("ns_steps", options.ns_steps, at_least(0).up_to(100), "iterations");
  option("nesterov", options.nesterov, "take the gradient one update ahead");
  option("rms_rate", options.rms_rate, float_positive,
         "size of a step, times the root of the longer side; ~: 1, whatever the size");
}

namespace {

bool is_embedding(std::string path) {
  std::ranges::transform(path, path.begin(), [](unsigned char c) { return std::tolower(c); });
  return path.find("embedding") != std::string::npos;
}

}  // namespace

Optimizer Muon(const MuonOptions& options) {
  const std::vector<PathPattern> excluded =
      patterns_of("Muon", "exclude_layers", options.exclude_layers);
  Optimizer optimizer = make_optimizer(
      "Muon", options, {{"muon_momentum"}, {.name = "v", .not_negative = true}},
      AdamSpec{
          .beta_1 = options.adam_beta_1, .beta_2 = options.adam_beta_2, .epsilon = options.epsilon},
      options.adam_weight_decay);
  optimizer.step_by_matrices(
      {.takes =
           [excluded, embeddings = options.exclude_embeddings](const Variable& variable) {
             return variable.options.shape.size() == 2 &&
                    !(embeddings && is_embedding(variable.path)) &&
                    !found_in(variable.path, excluded);
           },
       .momentum = static_cast<float>(options.momentum),
       .nesterov = options.nesterov,
       .iterations = options.ns_steps,
       .a = static_cast<float>(options.muon_a),
       .b = static_cast<float>(options.muon_b),
       .c = static_cast<float>(options.muon_c),
       .size =
           options.rms_rate ? std::optional(static_cast<float>(*options.rms_rate)) : std::nullopt,
       .kernel =
           [decay =
                static_cast<float>(options.weight_decay.value_or(0))](const UpdatedBlock& block) {
             return KernelSpec(SgdSpec{.count = block.count,
                                       .decay = block.decays ? decay : 0,
                                       .narrows = block.narrows});
           }});
  return optimizer;
}

void add_muon(Catalog& catalog) {
  catalog.add<Optimizer, MuonOptions>("Muon", {"muon"}, Muon);
}

}  // namespace meshwork
