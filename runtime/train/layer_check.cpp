#include "runtime/train/layer_check.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "collectives/error.h"
#include "collectives/exchange.h"
#include "collectives/joined_text.h"
#include "collectives/rank_names.h"
#include "collectives/text_list.h"
#include "runtime/config/nearest.h"
#include "runtime/data/array.h"
#include "runtime/graph/plan_report.h"
#include "runtime/graph/sequences.h"
#include "runtime/train/blueprint.h"
#include "runtime/train/layer_pieces.h"
#include "runtime/train/optimizers/sgd.h"

namespace meshwork {
namespace {

// Of a gradient, relative to the larger of `least_gradient` and its largest element.
constexpr double slope_tolerance = 1e-2;
constexpr double least_gradient = 1e-2;
// Where a gradient does not agree with the differences of the first step, others are tried: a larger
// one, in which what float32 loses of the loss counts for less, and smaller ones, on whose way
// fewer values of relu pass its kink. A gradient that is wrong agrees with none.
constexpr float first_step = 5e-4f;
constexpr float other_steps[] = {4e-3f, 1e-4f, 2e-5f};
// Of predictions from pieces in bfloat16, relative to the larger of 1 and the largest. Sums in another
// order cross rounding boundaries, which are 2^-8 of a factor apart.
constexpr double narrow_tolerance = 1e-2;
// Elements of a variable whose slopes are taken.
constexpr std::size_t most_slopes = 512;

// Arithmetic takes far longer than to send, which still decides between splits of equal work.
constexpr CostModel free_sending{
    .latency_seconds = 0, .bytes_per_second = 1e12, .flops_per_second = 1e6};

std::vector<float> random_values(std::int64_t count, unsigned seed, double least, double most) {
  std::mt19937 words(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const double unit = static_cast<double>(words()) / 4294967296.0;
    value = static_cast<float>(least + (most - least) * unit);
  }
  return values;
}

std::vector<SymbolicTensor> inputs_of(const LayerCase& subject) {
  std::vector<SymbolicTensor> inputs;
  for (const CheckedInput& input : subject.inputs) {
    inputs.push_back(Input(input.sample, "", input.dtype));
  }
  return inputs;
}

std::shared_ptr<const Graph> graph_of(const LayerCase& subject) {
  const std::vector<SymbolicTensor> inputs = inputs_of(subject);
  return std::make_shared<Graph>(make_graph(inputs, {subject.build(inputs)}));
}

CompileOptions training_of(const LayerCase& subject) {
  return {
      .loss = subject.loss, .optimizer = SGD({.learning_rate = 1.0}), .metrics = subject.metrics};
}

// What `varied` asks for.
void vary(Model& model, const LayerSamples& samples) {
  // Parameters are made for a plan. Predictions come first, so they need not be made again.
  (void)model.plan(samples.source(), checked_rows, Mode::predict);
  unsigned seed = 41;
  for (const Variable& variable : model.graph().variables) {
    if (!variable.options.trainable) continue;
    std::vector<float> values = model.variable(variable.path);
    const std::vector<float> added =
        random_values(static_cast<std::int64_t>(values.size()), seed++, -0.25, 0.25);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += added[i];
    model.set_variable(variable.path, values);
  }
}

Model model_of(const LayerCase& subject, Distribution distribution, const LayerSamples& samples) {
  const std::vector<SymbolicTensor> inputs = inputs_of(subject);
  Model model(inputs, {subject.build(inputs)}, std::move(distribution), subject.options);
  model.compile(training_of(subject));
  if (subject.varied) vary(model, samples);
  return model;
}

LayerOutcome outcome_of(const LayerCase& subject, Model& model, const LayerSamples& samples,
                        const InPieces& pieces = {}) {
  const std::shared_ptr<const Source> source = samples.source();
  LayerOutcome outcome;
  outcome.predicted = model.predict(source, {.batch_size = checked_rows, .prefetch = false});
  if (pieces.length > 0) {
    outcome.in_pieces = predict_in_pieces(model, pieces, samples.batch()).front();
  }
  if (!subject.metrics.empty()) {
    outcome.evaluated = model.evaluate(source, {.batch_size = checked_rows, .prefetch = false});
  }
  outcome.trained = model.train_step(samples.batch());
  for (const Variable& variable : model.graph().variables) {
    outcome.variables.push_back(model.variable(variable.path));
  }
  return outcome;
}

DeviceMesh alone() {
  return DeviceMesh({{"alone", 1}}, Communicator::self());
}

// "" or the element that differs most, of those that differ by more than `tolerance` times the larger
// of `least` and the largest expected magnitude. Both NaN, or the same infinity, are equal.
std::string difference(std::span<const float> found, std::span<const float> expected,
                       double tolerance, double least, const char* expecting) {
  if (found.size() != expected.size()) {
    return fmt::format("{} elements, {} {}", found.size(), expecting, expected.size());
  }
  double largest = least;
  for (const float value : expected) largest = std::max(largest, std::abs(double{value}));
  const double bound = tolerance * largest;
  std::size_t worst = 0;
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double a = found[i], b = expected[i];
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= bound) continue;
    const double times = std::isfinite(a - b) ? std::abs(a - b) / bound : HUGE_VAL;
    if (times > most) {
      most = times;
      worst = i;
    }
  }
  if (most == 0) return "";
  return fmt::format("element {} of {} is {}, {} {}, {:.3g} times the tolerance of {:.1e}", worst,
                     expected.size(), found[worst], expecting, expected[worst], most, bound);
}

// Of a model on this rank alone, by output. None: it takes no pieces.
struct BothWays {
  std::vector<std::vector<float>> whole, in_pieces;
};

Blueprint blueprint_alone(const LayerCase& subject, std::shared_ptr<const Graph> graph,
                          const MeshShape& mesh) {
  Blueprint blueprint(std::move(graph), LayoutMap(mesh), std::nullopt, UnmatchedLayouts::error,
                      subject.options);
  blueprint.draw(std::nullopt, checked_rows);
  return blueprint;
}

BothWays both_ways(const LayerCase& subject, std::shared_ptr<const Graph> graph,
                   const LayerSamples& samples) {
  DeviceMesh self = alone();
  Blueprint blueprint = blueprint_alone(subject, std::move(graph), self.shape());
  const InPieces pieces = in_pieces(blueprint.planned->plan);
  if (pieces.length == 0) return {};
  Model model(std::move(blueprint), self);
  if (subject.varied) vary(model, samples);
  return {model.predict_step(samples.batch()), predict_in_pieces(model, pieces, samples.batch())};
}

// A sentence about the first operation that gives other numbers in pieces; "" if none does so by
// itself. All that has positions is an output then, so none is joined to another.
std::string first_to_differ(const LayerCase& subject, const LayerSamples& samples,
                            double tolerance) {
  auto graph = std::make_shared<Graph>(*graph_of(subject));
  DeviceMesh self = alone();
  const Blueprint blueprint = blueprint_alone(subject, graph, self.shape());
  const Sequences sequences = sequences_of(blueprint.planned->plan);
  std::vector<std::string> paths;
  graph->outputs.clear();
  for (const GraphOperation& operation : graph->operations) {
    if (sequences.dimensions[operation.output] < 0) continue;
    graph->outputs.push_back(operation.output);
    paths.push_back(operation.path);
  }
  const auto [whole, in_pieces] = both_ways(subject, graph, samples);
  for (std::size_t i = 0; i < in_pieces.size(); ++i) {
    const std::string wrong = difference(in_pieces[i], whole[i], tolerance, 1, "at once");
    if (!wrong.empty()) return fmt::format("{} gives other numbers: {}", paths[i], wrong);
  }
  return "";
}

std::string difference(const Logs& found, const Logs& expected, double tolerance) {
  if (found.names() != expected.names()) {
    return fmt::format("{} instead of {}", quoted_list(found.names()),
                       quoted_list(expected.names()));
  }
  for (const auto& [name, value] : expected) {
    const double bound = tolerance * std::max(1.0, std::abs(value));
    const double distance = std::abs(found.at(name) - value);
    if (!(distance <= bound)) {
      return fmt::format("{} is {}, expected {}, {:.3g} times the tolerance of {:.1e}", name,
                         found.at(name), value, distance / bound, bound);
    }
  }
  return "";
}

std::string in_words(const PathLayouts& layouts) {
  std::string text;
  for (const auto& [path, layout] : layouts) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", path, to_string(layout));
  }
  return text.empty() ? "no layouts" : text;
}

void add_layouts(const std::vector<MeshAxis>& axes, std::size_t next, TensorLayout layout,
                 std::vector<TensorLayout>& all) {
  if (next == axes.size()) {
    all.push_back(std::move(layout));
    return;
  }
  add_layouts(axes, next + 1, layout, all);
  for (DimensionAxes& dimension : layout) {
    // At every place among the axes that are there already.
    for (std::size_t place = 0; place <= dimension.axes.size(); ++place) {
      const DimensionAxes before = dimension;
      dimension.axes.insert(dimension.axes.begin() + static_cast<std::ptrdiff_t>(place),
                            axes[next].name);
      add_layouts(axes, next + 1, layout, all);
      dimension = before;
    }
  }
}

void add_meshes(std::int64_t ranks, std::vector<std::int64_t> sizes,
                std::vector<std::vector<std::int64_t>>& all) {
  if (ranks == 1) {
    all.push_back(std::move(sizes));
    return;
  }
  for (std::int64_t size = ranks; size > 1; --size) {
    if (ranks % size != 0) continue;
    sizes.push_back(size);
    add_meshes(ranks / size, sizes, all);
    sizes.pop_back();
  }
}

// Or 10^15, if it is more.
std::size_t product_of(const std::vector<std::size_t>& counts) {
  constexpr std::size_t most = 1'000'000'000'000'000;
  std::size_t product = 1;
  for (const std::size_t count : counts) {
    product = count == 0 ? 0 : std::min(product, most / count + 1) * count;
  }
  return std::min(product, most);
}

// A layout of a case, and what came of it.
struct Tried {
  PathLayouts layouts;
  std::string batch_axis;
  bool eagerly = false;         // planned as if to send cost nothing
  std::set<std::string> split;  // letters of the layer's rules (letters_of)
  bool failed = false;
};

// With its plan.
Blueprint blueprint_of(const LayerCase& subject, const MeshShape& mesh, const LayerSamples& samples,
                       const Tried& tried) {
  LayoutMap layouts(mesh);
  for (const auto& [path, layout] : tried.layouts) layouts.insert(path, layout);
  Blueprint blueprint(
      graph_of(subject), layouts,
      tried.batch_axis.empty() ? std::nullopt : std::optional(mesh.axis(tried.batch_axis)),
      UnmatchedLayouts::error, subject.options, training_of(subject));
  if (tried.eagerly) blueprint.spread.costs = free_sending;
  blueprint.draw(loss_data_of(*samples.source()), checked_rows);
  return blueprint;
}

std::set<char> letters_in(const Rule& rule) {
  std::set<char> letters(rule.output.begin(), rule.output.end());
  for (const std::string& input : rule.inputs) letters.insert(input.begin(), input.end());
  return letters;
}

// The letters of the layer's rules, "k" of swish/swish (...): those that an axis may split, or those
// that `plan` does split.
std::set<std::string> letters_of(const LayerCase& subject, const Plan& plan, bool split) {
  std::set<std::string> found;
  for (const PlannedOperation& operation : plan.operations) {
    if (!operation.path.starts_with(subject.layer + "/")) continue;
    const Rule& rule = operation.rule;
    const std::string inputs = joined_text(rule.inputs, ",");
    for (const char letter : letters_in(rule)) {
      const auto axes = operation.split.find(letter);
      const bool is_split = axes != operation.split.end() && plan.mesh.size_over(axes->second) > 1;
      if (split ? is_split : rule.whole.find(letter) == std::string::npos) {
        found.insert(
            fmt::format("\"{}\" of {} ({}->{})", letter, operation.path, inputs, rule.output));
      }
    }
  }
  return found;
}

// Letters that explain failures: split in layouts that fail and in none that passes, those of most
// failures first, and of what these leave.
std::vector<std::string> causes_of(const std::vector<Tried>& all) {
  std::vector<std::set<std::string>> failing;
  std::set<std::string> innocent;
  for (const Tried& tried : all) {
    if (tried.failed) {
      failing.push_back(tried.split);
    } else {
      innocent.insert(tried.split.begin(), tried.split.end());
    }
  }
  std::vector<std::string> causes;
  while (!failing.empty()) {
    std::map<std::string, std::size_t> counts;
    for (const std::set<std::string>& letters : failing) {
      for (const std::string& letter : letters) {
        if (!innocent.contains(letter)) ++counts[letter];
      }
    }
    if (counts.empty()) break;
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& counted) { return counted.second; });
    causes.push_back(
        fmt::format("all of the {} layouts that split {} fail", most->second, most->first));
    std::erase_if(failing, [&](const auto& letters) { return letters.contains(most->first); });
  }
  return causes;
}

// What is wrong on any rank, the same on all. Collective.
std::string on_any_rank(const Communicator& ranks, const std::string& own) {
  const std::vector<DistinctText> all = distinct_texts(ranks, own);
  const auto first = std::ranges::find_if(all, [](const auto& one) { return !one.text.empty(); });
  if (first == all.end()) return "";
  return all.size() == 1 ? first->text
                         : fmt::format("rank {}: {}", name_of_rank(first->rank), first->text);
}

// Sleeps until all ranks come here: they may be as many as there are processors.
void wait_for_all(const Communicator& ranks) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(ranks.native(), &request), "MPI_Ibarrier");
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) ::usleep(2000);
  }
}

// Rank 0 does it, and the others sleep.
void on_rank_0(const Communicator& ranks, const std::function<void()>& action) {
  std::exception_ptr problem;
  try {
    if (ranks.rank() == 0) action();
  } catch (...) {
    problem = std::current_exception();
  }
  wait_for_all(ranks);
  if (problem != nullptr) std::rethrow_exception(problem);
}

std::string to_list(const std::vector<std::string>& entries) {
  std::string list;
  for (const std::string& entry : entries) append_entry(list, entry);
  return list;
}

// The report of rank 0, on all ranks.
LayerReport broadcast(const Communicator& ranks, const LayerReport& report) {
  std::string text;
  for (const std::int64_t count : {report.layouts, report.legal, report.in_pieces, report.slopes}) {
    append_entry(text, std::to_string(count));
  }
  append_entry(text, to_list(report.failures));
  append_entry(text, to_list(report.causes));
  append_entry(text, to_list({report.letters.begin(), report.letters.end()}));
  append_entry(text, to_list({report.split.begin(), report.split.end()}));
  const std::vector<std::string> parts = entries_of(broadcast_text(ranks, text));
  const std::vector<std::string> letters = entries_of(parts[6]), split = entries_of(parts[7]);
  return {.layouts = std::stoll(parts[0]),
          .legal = std::stoll(parts[1]),
          .in_pieces = std::stoll(parts[2]),
          .slopes = std::stoll(parts[3]),
          .failures = entries_of(parts[4]),
          .causes = entries_of(parts[5]),
          .letters = {letters.begin(), letters.end()},
          .split = {split.begin(), split.end()}};
}

}  // namespace

BatchView LayerSamples::batch() const {
  return {.rows = checked_rows, .inputs = {inputs.begin(), inputs.end()}, .targets = {targets}};
}

std::shared_ptr<const Source> LayerSamples::source() const {
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    arrays.emplace_back(i == 0 ? "features" : fmt::format("features_{}", i), inputs[i], shapes[i]);
  }
  arrays.emplace_back("targets", targets, target_shape, FieldRole::target);
  return std::make_shared<ArraySource>(std::move(arrays));
}

LayerSamples samples_of(const LayerCase& subject) {
  LayerSamples samples;
  unsigned seed = 17;
  for (const CheckedInput& input : subject.inputs) {
    Shape shape = input.sample;
    shape.insert(shape.begin(), checked_rows);
    samples.inputs.push_back(input.values ? input.values(shape)
                                          : random_values(element_count(shape), seed, -1, 1));
    samples.shapes.push_back(std::move(shape));
    seed += 100;
  }
  samples.target_shape = subject.loss->target_shape(subject.build(inputs_of(subject)).shape());
  samples.target_shape[0] = checked_rows;
  samples.targets = subject.targets ? subject.targets(samples.target_shape)
                                    : random_values(element_count(samples.target_shape), 23, -1, 1);
  return samples;
}

LayerOutcome outcome_of(const LayerCase& subject, Distribution distribution) {
  const LayerSamples samples = samples_of(subject);
  Model model = model_of(subject, std::move(distribution), samples);
  return outcome_of(subject, model, samples);
}

std::string differences(const LayerOutcome& found, const LayerOutcome& expected,
                        const std::vector<Variable>& variables) {
  std::string first;
  std::vector<std::string> others;
  const auto note = [&](const std::string& what, const std::string& difference) {
    if (difference.empty()) return;
    if (first.empty()) {
      first = fmt::format("{} differs from that of one rank: {}", what, difference);
    } else {
      others.push_back(what);
    }
  };
  const auto compare = [&](const std::string& what, std::span<const float> ours,
                           std::span<const float> theirs) {
    note(what, difference(ours, theirs, spread_tolerance, 1, "expected"));
  };
  compare("the prediction", found.predicted, expected.predicted);
  if (!found.in_pieces.empty()) {
    compare("the prediction in pieces of positions", found.in_pieces, expected.predicted);
  }
  note("the evaluation", difference(found.evaluated, expected.evaluated, spread_tolerance));
  note("the loss of training", difference(found.trained, expected.trained, spread_tolerance));
  for (std::size_t v = 0; v < variables.size(); ++v) {
    compare((variables[v].options.trainable ? "the gradient of " : "the new value of ") +
                variables[v].path,
            found.variables.at(v), expected.variables.at(v));
  }
  if (others.empty()) return first;
  return fmt::format("{}; so {} {}", first, others.size() == 1 ? "does" : "do",
                     joined_text(others, ", "));
}

std::vector<TensorLayout> layouts_of(const std::vector<MeshAxis>& axes, std::size_t dimensions) {
  std::vector<TensorLayout> all;
  add_layouts(axes, 0, TensorLayout(dimensions), all);
  return all;
}

std::vector<std::vector<std::size_t>> combinations(const std::vector<std::size_t>& counts,
                                                   std::size_t limit, unsigned seed) {
  const std::size_t all = product_of(counts);
  std::vector<std::vector<std::size_t>> chosen;
  if (all <= limit) {
    for (std::size_t number = 0; number < all; ++number) {
      std::vector<std::size_t> choice;
      std::size_t rest = number;
      for (const std::size_t count : counts) {
        choice.push_back(rest % count);
        rest /= count;
      }
      chosen.push_back(std::move(choice));
    }
    return chosen;
  }
  // Latin: in every round each path goes through all of its layouts, each in an order of its own. What comes again is
  // drawn anew.
  std::mt19937 words(seed);
  std::set<std::vector<std::size_t>> known;
  std::vector<std::vector<std::size_t>> orders(counts.size());
  while (chosen.size() < limit) {
    std::vector<std::size_t> choice;
    for (std::size_t p = 0; p < counts.size(); ++p) {
      if (orders[p].empty()) {
        for (std::size_t i = 0; i < counts[p]; ++i) {
          orders[p].insert(
              orders[p].begin() + static_cast<std::ptrdiff_t>(words() % (orders[p].size() + 1)), i);
        }
      }
      choice.push_back(orders[p].back());
      orders[p].pop_back();
    }
    if (known.insert(choice).second) chosen.push_back(std::move(choice));
  }
  return chosen;
}

std::vector<std::vector<MeshAxis>> meshes_of(std::int64_t ranks) {
  if (ranks == 1) return {{{"x", 1}}};
  static constexpr const char* names[] = {"x", "y", "z", "u", "v", "w"};
  std::vector<std::vector<std::int64_t>> sizes;
  add_meshes(ranks, {}, sizes);
  std::vector<std::vector<MeshAxis>> meshes;
  for (const std::vector<std::int64_t>& of : sizes) {
    std::vector<MeshAxis> axes;
    for (std::size_t a = 0; a < of.size(); ++a) {
      axes.push_back({a < std::size(names) ? names[a] : fmt::format("axis_{}", a), of[a]});
    }
    meshes.push_back(std::move(axes));
  }
  return meshes;
}

void LayerReport::add(const LayerReport& more) {
  layouts += more.layouts;
  legal += more.legal;
  in_pieces += more.in_pieces;
  slopes += more.slopes;
  for (const std::string& failure : more.failures) {
    if (std::ranges::find(failures, failure) == failures.end()) failures.push_back(failure);
  }
  causes.insert(causes.end(), more.causes.begin(), more.causes.end());
  letters.insert(more.letters.begin(), more.letters.end());
  split.insert(more.split.begin(), more.split.end());
}

std::vector<std::string> LayerReport::never_split() const {
  // Without its rule, and without what is joined to it: "k" of swish/swish.
  const auto stem = [](const std::string& letter) {
    return letter.substr(0, std::min(letter.find(" ("), letter.find('+')));
  };
  std::set<std::string> met;
  for (const std::string& letter : split) met.insert(stem(letter));
  std::vector<std::string> never;
  for (const std::string& letter : letters) {
    if (met.insert(stem(letter)).second) never.push_back(letter);
  }
  return never;
}

LayerReport check_layouts(const LayerCase& subject, DeviceMesh& mesh, std::size_t limit,
                          unsigned seed) {
  const Communicator& ranks = mesh.all();
  const std::string where = fmt::format("{} on mesh {}", subject.name, to_string(mesh.shape()));
  // What `action` throws, the same on all ranks; "" for nothing. A rank that fails alone may leave
  // others waiting, and ends the job with `place` in its message.
  const auto problem_of = [&](const std::string& place, const auto& action) -> std::string {
    try {
      together(ranks, [&] {
        try {
          action();
        } catch (const RanksParted&) {
          throw;
        } catch (const std::exception& problem) {
          fail("{}: {}", place, message_of(problem));
        }
      });
      return "";
    } catch (const RanksParted&) {
      throw;
    } catch (const Error& problem) {
      return problem.what();
    }
  };
  LayerReport report;
  std::shared_ptr<const Graph> graph;
  LayerSamples samples;
  LayerOutcome one;
  InPieces pieces;
  const auto on_one_rank = [&] {
    graph = graph_of(subject);
    samples = samples_of(subject);
    DeviceMesh self = alone();
    one = outcome_of(subject, DataParallel(self));
    on_rank_0(ranks, [&] { report.add(check_pieces(subject)); });
    pieces = in_pieces(blueprint_alone(subject, graph, self.shape()).planned->plan);
  };
  if (const std::string problem = problem_of(subject.name + " on one rank", on_one_rank);
      !problem.empty()) {
    report.failures.push_back(problem);
    return report;
  }
  // What is wrong in pieces on one rank would be so in every layout.
  report = broadcast(ranks, report);
  if (!report.failures.empty()) pieces = {};
  std::vector<std::string> batch_axes{""};
  for (const MeshAxis& axis : mesh.shape().axes()) {
    if (axis.size > 1 || ranks.size() == 1) batch_axes.push_back(axis.name);
  }
  std::vector<std::vector<TensorLayout>> layouts;
  std::vector<std::size_t> counts{batch_axes.size()};
  for (const std::string& path : subject.spread) {
    const TensorId tensor = graph->find(path);
    if (tensor < 0) fail("{} has no {}", subject.name, path);
    layouts.push_back(layouts_of(mesh.shape().axes(), graph->tensors[tensor].shape.size()));
    counts.push_back(layouts.back().size());
  }
  report.legal = static_cast<std::int64_t>(product_of(counts));
  std::vector<Tried> all;
  std::vector<std::pair<std::size_t, std::string>> failures;  // with how many layouts they take
  for (const std::vector<std::size_t>& choice : combinations(counts, limit, seed)) {
    Tried tried{.layouts = {}, .batch_axis = batch_axes[choice[0]]};
    tried.eagerly = subject.splits_eagerly && all.size() % 2 == 1;
    for (std::size_t p = 0; p < layouts.size(); ++p) {
      // 0 splits nothing, and is left to the planner.
      if (choice[p + 1] != 0) {
        tried.layouts.emplace_back(subject.spread[p], layouts[p][choice[p + 1]]);
      }
    }
    const std::string place =
        fmt::format("{}, {}, batches over \"{}\"{}", where, in_words(tried.layouts),
                    tried.batch_axis, tried.eagerly ? ", split eagerly" : "");
    LayerOutcome found;
    // Planning and lowering are pure: what fails on some ranks only leaves no other waiting.
    std::optional<Blueprint> blueprint;
    std::string failure = problem_of(place, [&] {
      blueprint.emplace(blueprint_of(subject, mesh.shape(), samples, tried));
      const Plan& plan = blueprint->planned->plan;
      tried.split = letters_of(subject, plan, true);
      report.split.insert(tried.split.begin(), tried.split.end());
      report.letters.merge(letters_of(subject, plan, false));
      (void)report_plan(plan, Mode::train, checked_rows, mesh.rank(), SGD().update_rule(), {});
    });
    if (failure.empty()) {
      failure = problem_of(place, [&] {
        Model model(std::move(*blueprint), mesh);
        if (subject.varied) vary(model, samples);
        found = outcome_of(subject, model, samples, pieces);
      });
    }
    if (failure.empty()) {
      failure = on_any_rank(ranks, differences(found, one, graph->variables));
      if (!failure.empty()) failure = fmt::format("{}: {}", place, failure);
    }
    tried.failed = !failure.empty();
    if (tried.failed) failures.emplace_back(tried.layouts.size(), failure);
    all.push_back(std::move(tried));
  }
  report.layouts = static_cast<std::int64_t>(all.size());
  if (pieces.length > 0) report.in_pieces = report.layouts;
  std::ranges::stable_sort(failures, {}, [](const auto& failure) { return failure.first; });
  for (auto& [count, failure] : failures) report.failures.push_back(std::move(failure));
  if (!failures.empty()) {
    for (const std::string& cause : causes_of(all)) {
      report.causes.push_back(fmt::format("{}: {}", where, cause));
    }
  }
  return report;
}

LayerReport check_pieces(const LayerCase& subject) {
  LayerReport report;
  const LayerSamples samples = samples_of(subject);
  LayerCase precise = subject;
  for (const auto& [precision, tolerance] :
       {std::pair(Precision::float32, spread_tolerance), {Precision::bfloat16, narrow_tolerance}}) {
    precise.options.precision = precision;
    const auto [whole, in_pieces] = both_ways(precise, graph_of(precise), samples);
    if (in_pieces.empty()) break;
    std::string wrong = difference(in_pieces.front(), whole.front(), tolerance, 1, "at once");
    if (wrong.empty()) continue;
    wrong = "the model gives other numbers: " + wrong;
    if (const std::string first = first_to_differ(precise, samples, tolerance); !first.empty()) {
      wrong = first;
    }
    report.failures.push_back(
        fmt::format("{} on one rank, in pieces of positions, in {}: {}; an operation that tells "
                    "positions apart asks Lowering::positions, or takes no pieces (takes_pieces)",
                    subject.name, name_of(precision), wrong));
    break;
  }
  return report;
}

LayerReport check_gradients(const LayerCase& subject) {
  LayerReport report;
  DeviceMesh self = alone();
  const LayerOutcome outcome = outcome_of(subject, DataParallel(self));
  const LayerSamples samples = samples_of(subject);
  Model model = model_of(subject, DataParallel(self), samples);
  const double trained = outcome.trained.at("loss");
  const double evaluated = model.evaluate_step(samples.batch()).at("loss");
  // Noise and statistics of a batch are there in training alone. A new model draws the same noise.
  const bool trains_otherwise =
      !(std::abs(trained - evaluated) <= 1e-6 * std::max(1.0, std::abs(trained)));
  for (std::size_t v = 0; v < outcome.variables.size(); ++v) {
    const Variable& variable = model.graph().variables[v];
    if (!variable.options.trainable) continue;
    const std::string& path = variable.path;
    const std::vector<float> before = model.variable(path);
    const auto loss_at = [&](std::size_t i, float value) {
      std::vector<float> moved = before;
      moved[i] = value;
      if (trains_otherwise) {
        Model other = model_of(subject, DataParallel(self), samples);
        other.set_variable(path, moved);
        return other.train_step(samples.batch()).at("loss");
      }
      model.set_variable(path, moved);
      return model.evaluate_step(samples.batch()).at("loss");
    };
    const auto slope_at = [&](std::size_t i, float step) {
      const float above = before[i] + step;
      const float below = before[i] - step;
      return static_cast<float>((loss_at(i, above) - loss_at(i, below)) /
                                (double{above} - double{below}));
    };
    std::vector<float> gradient, slopes;
    const std::size_t stride = (before.size() + most_slopes - 1) / most_slopes;
    double largest = least_gradient;
    for (std::size_t i = 0; i < before.size(); i += stride) {
      slopes.push_back(slope_at(i, first_step));
      gradient.push_back(before[i] - outcome.variables[v][i]);
      largest = std::max(largest, std::abs(double{slopes.back()}));
    }
    for (std::size_t s = 0; s < slopes.size(); ++s) {
      const auto is_near = [&](float slope) {
        return std::abs(double{gradient[s]} - slope) <= slope_tolerance * largest;
      };
      for (const float step : other_steps) {
        if (is_near(slopes[s])) break;
        if (const float slope = slope_at(s * stride, step); is_near(slope)) slopes[s] = slope;
      }
    }
    model.set_variable(path, before);
    report.slopes += static_cast<std::int64_t>(slopes.size());
    const std::string wrong =
        difference(gradient, slopes, slope_tolerance, least_gradient, "by differences of the loss");
    if (!wrong.empty()) {
      report.failures.push_back(fmt::format("{} on one rank: the gradient of {} is wrong: {}",
                                            subject.name, path, wrong));
    }
  }
  return report;
}

LayerReport check_on_ranks(const std::vector<LayerCase>& cases, const Communicator& ranks,
                           const LayerCheckOptions& options) {
  LayerReport report;
  const auto add = [&](const std::string& where, const LayerReport& part) {
    report.add(part);
    if (options.progress && ranks.rank() == 0) options.progress(where, part);
  };
  for (int count = 1; count <= ranks.size(); ++count) {
    const bool takes_part = ranks.rank() < count;
    const Communicator part = ranks.split(takes_part ? 0 : 1, ranks.rank());
    if (takes_part && count == 1) {
      LayerReport gradients;
      for (const LayerCase& subject : cases) {
        try {
          gradients.add(check_gradients(subject));
        } catch (const Error& problem) {
          gradients.failures.push_back(
              fmt::format("{} on one rank: {}", subject.name, problem.what()));
        }
      }
      add("one rank", gradients);
    }
    if (takes_part) {
      for (const std::vector<MeshAxis>& axes : meshes_of(count)) {
        DeviceMesh mesh(axes, part);
        LayerReport layouts;
        unsigned seed = 0;
        for (const LayerCase& subject : cases) {
          layouts.add(check_layouts(subject, mesh, options.limit, ++seed));
        }
        add("mesh " + to_string(mesh.shape()), layouts);
      }
    }
    wait_for_all(ranks);
  }
  return broadcast(ranks, report);
}

}  // namespace meshwork
