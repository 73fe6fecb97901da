// Every rule against the truth: a layer that is spread in any legal way gives the numbers of one rank.
//
// A *case* is a model around the layer, and the paths whose layouts are varied. A *layout of a case*
// gives each of these paths a layout of its own: every assignment of mesh axes to dimensions, several
// axes on one dimension in each order. One step of plain descent with rate 1 turns gradients into
// changes of variables. Predictions, loss, metrics and variables are compared with those of one rank.
//
// Where there are more layouts of a case than are wanted, they are drawn: in every round each path
// goes through all layouts of its own, in an order that a fixed seed gives.
//
// That one rank is right follows from differences of the loss (check_gradients). A model that can be
// run on pieces of sequences (graph/sequences.h) predicts from pieces too, on one rank and in every
// layout, and is compared with the whole pass (check_pieces).
//
// Tolerance: sums of at most a few hundred float32 products in another order differ by less than
// 1e-5 of the largest element. So samples and variables of a case are small, and their lengths are
// primes or odd, which makes blocks unequal and some empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "runtime/data/source.h"
#include "runtime/graph/layer.h"
#include "runtime/mesh/device_mesh.h"
#include "runtime/mesh/layout.h"
#include "runtime/train/distribution.h"
#include "runtime/train/losses/mean_squared_error.h"
#include "runtime/train/model.h"

namespace meshwork {

/// Of numbers on a mesh, relative to the larger of 1 and the largest that is expected.
inline constexpr double spread_tolerance = 1e-5;
/// Samples in the batch of a case.
inline constexpr std::int64_t checked_rows = 11;

/// Layouts by path.
using PathLayouts = std::vector<std::pair<std::string, TensorLayout>>;
/// Values for a shape that includes the batch.
using ValuesForShape = std::function<std::vector<float>(const Shape&)>;

struct CheckedInput {
  Shape sample;  // without the batch
  ElementType dtype = ElementType::float32;
  ValuesForShape values = {};  // none: random numbers between -1 and 1
};

struct LayerCase {
  std::string name;  // what messages begin with
  std::vector<CheckedInput> inputs;
  /// From inputs to the prediction. Makes new layers at each call.
  std::function<SymbolicTensor(const std::vector<SymbolicTensor>&)> build;
  std::vector<std::string> spread;  // paths whose layouts are varied
  SharedLoss loss = MeanSquaredError();
  std::vector<SharedMetric> metrics = {};
  ValuesForShape targets = {};  // none: random numbers between -1 and 1
  /// Add random numbers up to 0.25 to trained variables: initial values such as ones are alike in
  /// every block.
  bool varied = false;
  /// Plan every second layout as if to send cost nothing: of tensors as small as these, letters are
  /// rarely worth a split.
  bool splits_eagerly = false;
  std::string layer = "";  // the path of the layer that is checked; "": all that is there
  ModelOptions options{.seed = 5};
};

struct LayerSamples {
  std::vector<Shape> shapes;  // by input, with the batch
  std::vector<std::vector<float>> inputs;
  Shape target_shape;
  std::vector<float> targets;
  [[nodiscard]] BatchView batch() const;  // borrows the values
  [[nodiscard]] std::shared_ptr<const Source> source() const;
};
[[nodiscard]] LayerSamples samples_of(const LayerCase& subject);

/// What a run of a case gives.
struct LayerOutcome {
  std::vector<float> predicted;
  std::vector<float> in_pieces = {};  // predicted from pieces; none: that was not asked for
  Logs evaluated, trained;
  std::vector<std::vector<float>> variables;  // after one step
};
/// Collective over the mesh.
[[nodiscard]] LayerOutcome outcome_of(const LayerCase& subject, Distribution distribution);
/// "" or the end of a sentence: what differs by more than `spread_tolerance`, and by how much.
[[nodiscard]] std::string differences(const LayerOutcome& found, const LayerOutcome& expected,
                                      const std::vector<Variable>& variables);

/// Every layout of a tensor of so many dimensions over `axes`; the first splits nothing.
[[nodiscard]] std::vector<TensorLayout> layouts_of(const std::vector<MeshAxis>& axes,
                                                   std::size_t dimensions);
/// Choices of one of `counts[p]` layouts for each path p, by index: all of them, or `limit` different ones that
/// are drawn.
[[nodiscard]] std::vector<std::vector<std::size_t>> combinations(
    const std::vector<std::size_t>& counts, std::size_t limit, unsigned seed);
/// Every mesh of `ranks` ranks without axes of length 1, but for that of one rank: "x" 4, or "x" 2
/// and "y" 2.
[[nodiscard]] std::vector<std::vector<MeshAxis>> meshes_of(std::int64_t ranks);

struct LayerReport {
  std::int64_t layouts = 0;    // that were tried, over all cases and meshes
  std::int64_t legal = 0;      // that there are
  std::int64_t in_pieces = 0;  // layouts in which pieces of positions were compared too
  std::int64_t slopes = 0;     // elements of gradients that were compared with differences
  /// A sentence each, those with the fewest layouts first within a case and mesh.
  std::vector<std::string> failures;
  /// Which letters of which rules failing layouts split, where no layout that passes does.
  std::vector<std::string> causes;
  /// The letters of the layer's rules that an axis may split, and those that some layout split.
  std::set<std::string> letters = {}, split = {};

  /// Those that none did, whatever the dimensions of samples: whether they are true is not known.
  [[nodiscard]] std::vector<std::string> never_split() const;
  /// The same failure counts once.
  void add(const LayerReport& more);
};

/// Checks pieces, and runs `limit` layouts of `subject` on `mesh`. A layout that cannot be planned
/// or run on any rank is a failure as well. Collective over the mesh; the same report on all ranks.
/// A rank that fails where others wait for it ends the job (exchange.h), and its message names the
/// layout.
[[nodiscard]] LayerReport check_layouts(const LayerCase& subject, DeviceMesh& mesh,
                                        std::size_t limit, unsigned seed);

/// Compares predictions from pieces of positions with those of whole sequences, on this rank alone, in
/// float32 and in bfloat16. A failure names the first operation whose output differs. Nothing where
/// the operations say that they take no pieces. Not collective.
[[nodiscard]] LayerReport check_pieces(const LayerCase& subject);

/// Compares gradients of one step on this rank alone with differences of the loss: of evaluation, or
/// of training where that has another loss (dropout, statistics of a batch). The tolerance is 1 % of
/// the larger of 0.01 and a variable's largest gradient. Not collective.
[[nodiscard]] LayerReport check_gradients(const LayerCase& subject);

struct LayerCheckOptions {
  std::size_t limit = 64;  // layouts of a case on a mesh
  /// Told on rank 0 of each number of ranks and mesh that is done, with its part of the report.
  std::function<void(const std::string& where, const LayerReport& part)> progress = {};
};
/// Checks gradients on rank 0, and layouts on every mesh of the first 1, 2, ... ranks of `ranks`.
/// Collective over them; the same report on all. Ranks that have no part in it sleep.
[[nodiscard]] LayerReport check_on_ranks(const std::vector<LayerCase>& cases,
                                         const Communicator& ranks,
                                         const LayerCheckOptions& options = {});

}  // namespace meshwork
