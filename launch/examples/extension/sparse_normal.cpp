// SparseNormal: normal values of which most are 0 (Martens, "Deep learning via Hessian-free
// optimization", ICML 2010, who keeps a number of inputs; here each is kept by chance).
//
// An initializer gives the value of an element by its index in the whole variable. What it draws
// follows from the seed, the variable's path and that index, so every mesh starts from the same bits.
#include <meshwork/extension.h>

#include <cmath>

#include "runtime/graph/layer_config.h"
#include "runtime/graph/make_initializer.h"

namespace mine {

using namespace meshwork;

namespace {

struct SparseNormalOptions {
  double kept = 0.2;
  double gain = 1;
};

template <class Visitor>
void describe(SparseNormalOptions& options, Visitor& option) {
  option.about("normal values with the variance gain^2 / inputs, of which most are 0");
  option("kept", options.kept, between(0, 1), "share of values that are not 0");
  option("gain", options.gain, finite_positive, "factor of the standard deviation");
}

Initializer make_sparse_normal(const SparseNormalOptions& options) {
  return make_initializer(
      "SparseNormal", options,
      [options](const InitializedVariable& variable) -> ElementValue {
        const double deviation = options.gain / std::sqrt(variable.fans.in * options.kept);
        // Two numbers for an element come of two streams.
        return [kept = options.kept, deviation, choice = RandomNumbers(variable.key, 1),
                numbers = RandomNumbers(variable.key)](std::int64_t index) mutable {
          return choice.uniform(index) < kept ? deviation * numbers.normal(index) : 0.0;
        };
      },
      [](const Shape& shape) {
        if (shape.size() < 2) {
          fail("expected a variable with inputs and outputs, found shape {}", to_string(shape));
        }
      });
}

}  // namespace

void add_sparse_normal(Catalog& catalog) {
  catalog.add<Initializer, SparseNormalOptions>("SparseNormal", {}, make_sparse_normal);
}

}  // namespace mine
