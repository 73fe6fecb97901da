// Runs one operation without a planner: on one rank, or on the blocks of simulated ranks.
//
// `ReferenceLowering` is the plainest Lowering there is. It books one operation's forward pass, and
// its backward pass behind it, into one program on the device under test. What the operation's rule
// and a split say about blocks comes from spread.h, what its windows say about boxes from
// operation_windows.h; a box is cut from the global input. A collective of the operation's own is a
// kernel that meets the other simulated ranks, which are threads. Every tensor lies in memory of
// its own that is dirty before and guarded on both sides, and the contract of Lowering is checked:
// inputs and the output's gradient are not written, gradients are given where they are wanted and
// only there, scratch memory keeps its size, and only letters that are the rule's own are reduced.
//
//     OperationCase sums{.inputs = {x, kernel}, .output_gradient = dy};
//     OperationResult whole = run_whole(ContractionOperation("bi,io->bo"), sums);
//     OperationResult parts = run_split(ContractionOperation("bi,io->bo"), sums, mesh, {{'i', {0}}});
//
// `run_split` assembles what the ranks computed: blocks side by side, partial sums added, and so
// gradients over boxes where they overlap; replicas are required to be equal bit for bit.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/error.h"
#include "collectives/with_type.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/device/kernels/step_scalars.h"
#include "runtime/device/program.h"
#include "runtime/graph/lowering.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/operation_windows.h"
#include "runtime/graph/spread.h"
#include "tests/support/tensor.h"

namespace meshwork::test {

/// One operation's inputs, and what is asked of it. Tensors are global.
struct OperationCase {
  std::vector<Tensor> inputs;
  /// Of the output. Without one, only forward runs. A scalar output's gradient is not read, but has
  /// to be there for backward to run.
  std::optional<Tensor> output_gradient = {};
  std::vector<bool> wanted = {};  // by input: whether its gradient is; all if empty
  /// Of input 0: its gradient is multiplied by the derivative of this, taken at input 0.
  Activation derivative = Activation::linear;
  bool training = true;
  std::uint64_t key = 42;
  std::int64_t step = 3;
};

/// Of an operation of one input, of shape `x`: random numbers for it and for the output's gradient.
inline OperationCase case_of(const Operation& operation, const Shape& x) {
  OperationCase what{.inputs = {random_tensor(x, 1)}};
  what.output_gradient = random_tensor(operation.output_shape(std::vector<Shape>{x}), 2);
  return what;
}

struct OperationResult {
  Tensor output;
  std::vector<std::optional<Tensor>> gradients;  // by input, where wanted
  std::vector<std::optional<Tensor>> updates;    // by input: new values of variables, where given
};

/// Element i of an array of `type`, and its writing.
inline double number_at(ElementType type, const void* values, std::int64_t i) {
  return with_type(type, [&](auto number) {
    return static_cast<double>(static_cast<const decltype(number)*>(values)[i]);
  });
}
inline void put_number(ElementType type, void* values, std::int64_t i, double value) {
  with_type(type, [&](auto number) {
    static_cast<decltype(number)*>(values)[i] = static_cast<decltype(number)>(value);
  });
}

/// The types in which an operation takes its inputs: all float32 or, of what reads class numbers,
/// one of them int32.
inline std::vector<ElementType> types_for(const Operation& operation, std::size_t inputs) {
  const std::vector<ElementType> floats(inputs, ElementType::float32);
  const auto takes = [&](const std::vector<ElementType>& types) {
    try {
      (void)operation.output_type(types);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  for (std::size_t input = inputs; !takes(floats) && input-- > 0;) {
    std::vector<ElementType> types = floats;
    types[input] = ElementType::int32;
    if (takes(types)) return types;
  }
  return floats;
}

/// Memory of a device that is all NaN before, with guards on both sides.
class GuardedMemory {
 public:
  GuardedMemory(Device& device, std::int64_t bytes)
      : device_(&device), bytes_(bytes), memory_(device.allocate(2 * guard + bytes)) {
    std::vector<std::byte> dirty(static_cast<std::size_t>(2 * guard + bytes), std::byte{0xFF});
    std::memset(dirty.data(), 0xA5, guard);
    std::memset(dirty.data() + guard + bytes, 0xA5, guard);
    device.copy_in(memory_.data(), dirty.data(), memory_.bytes());
  }
  [[nodiscard]] void* data() const { return memory_.bytes_at(guard); }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  void write(const void* values) const { device_->copy_in(data(), values, bytes_); }
  [[nodiscard]] std::vector<std::byte> read() const {
    std::vector<std::byte> values(static_cast<std::size_t>(bytes_));
    device_->copy_out(values.data(), data(), bytes_);
    return values;
  }
  [[nodiscard]] bool guards_are_whole() const {
    std::array<std::byte, 2 * guard> guards;
    device_->copy_out(guards.data(), memory_.data(), guard);
    device_->copy_out(guards.data() + guard, memory_.bytes_at(guard + bytes_), guard);
    return std::all_of(guards.begin(), guards.end(),
                       [](std::byte byte) { return byte == std::byte{0xA5}; });
  }

 private:
  static constexpr std::int64_t guard = 64;
  Device* device_;
  std::int64_t bytes_;
  Memory memory_;
};

/// Where the threads of simulated ranks meet for a collective. All of them come to each one; groups
/// are disjoint.
class Meeting {
 public:
  explicit Meeting(int ranks) : posts_(ranks) {}

  /// Reduces over the ranks in `group`, in their order.
  void all_reduce(int rank, const std::vector<int>& group, ElementType type, Reduction reduction,
                  void* buffer, std::int64_t count) {
    posts_[rank] = {buffer, type, reduction, count};
    wait_for_all();
    std::vector<double> result;
    for (const int other : group) {
      const Post& post = posts_[other];
      if (post.type != type || post.reduction != reduction || post.count != count) {
        throw std::runtime_error("ranks of one collective differ in its type, kind or count");
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = number_at(type, post.buffer, i);
        if (other == group.front()) {
          result.push_back(value);
        } else if (reduction == Reduction::sum) {
          result[i] += value;
        } else if (reduction == Reduction::maximum) {
          result[i] = std::isnan(value) || value > result[i] ? value : result[i];
        } else {
          result[i] = std::isnan(value) || value < result[i] ? value : result[i];
        }
      }
    }
    wait_for_all();
    for (std::int64_t i = 0; i < count; ++i) {
      put_number(type, buffer, i, result[i]);
    }
    wait_for_all();
  }

  /// Lets everybody else go on with an error.
  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }

 private:
  struct Post {
    const void* buffer = nullptr;
    ElementType type = ElementType::float32;
    Reduction reduction = Reduction::sum;
    std::int64_t count = 0;
  };

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const std::int64_t round = round_;
    if (++arrived_ == posts_.size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || given_up_; });
    if (round_ == round) {
      throw std::runtime_error("another simulated rank failed");
    }
  }

  std::vector<Post> posts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;
  std::int64_t round_ = 0;
  bool given_up_ = false;
};

namespace detail {

/// An operation of several sums is run as if these were a dimension of its output.
inline void take_several_sums(const Operation& operation, Rule& rule, Shape& output_shape) {
  if (operation.sum_count() == 1) return;
  rule.output = "#";
  rule.whole += "#";
  output_shape = {operation.sum_count()};
}

}  // namespace detail

class ReferenceLowering final : public Lowering {
 public:
  ReferenceLowering(const Operation& operation, const OperationCase& what, const MeshShape& mesh,
                    const Split& split, int rank, Device& device, Meeting& meeting)
      : what_(what),
        mesh_(mesh),
        split_(split),
        rank_(rank),
        meeting_(meeting),
        device_(device),
        builder_(device),
        path_(operation.kind()),
        random_key_(what.key) {
    for (const Tensor& input : what.inputs) {
      shapes_.push_back(input.shape);
    }
    rule_ = operation.rule(shapes_);
    output_shape_ = operation.output_shape(shapes_);
    detail::take_several_sums(operation, rule_, output_shape_);
    const std::vector<ElementType> types = types_for(operation, shapes_.size());
    const ElementType output_type = operation.output_type(types);
    require(rule_.inputs.size() == shapes_.size() && rule_.output.size() == output_shape_.size(),
            "the rule does not have one entry for each operand");
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const int input = static_cast<int>(i);
      blocks_.push_back(
          has_windows(rule_, input)
              ? box_of(windows_of(operation, rule_, split, input, shapes_, output_shape_), mesh,
                       rank)
              : block_of(needed_layout(rule_, split, input), shapes_[i], mesh, rank));
      inputs_.push_back(place(blocks_[i], types[i], "input"));
      write(inputs_[i], what.inputs[i], blocks_[i]);
    }
    output_block_ = block_of(natural_layout(rule_, split), output_shape_, mesh, rank);
    output_ = place(output_block_, output_type, "output");
    scalars_ = device.allocate(sizeof(StepScalars));
    const StepScalars scalars{.step = what.step};
    device.copy_in(scalars_.data(), &scalars, sizeof scalars);
    step_scalars_ = builder_.external(scalars_.data(), sizeof scalars, "step scalars");

    gradients_.resize(shapes_.size());
    gradient_given_.resize(shapes_.size(), false);
    gradient_alias_.resize(shapes_.size(), false);
    operation.forward(*this);
    if (what.output_gradient) {
      backward_ = true;
      output_gradient_ = place(output_block_, output_type, "output gradient");
      write(output_gradient_, *what.output_gradient, output_block_);
      operation.backward(*this);
      for (std::size_t i = 0; i < shapes_.size(); ++i) {
        require(gradient_given_[i] == needs_gradient(static_cast<int>(i)),
                fmt::format("the gradient of input {} was {}", i,
                            gradient_given_[i] ? "given, but not wanted" : "not given"));
      }
    }
    program_ = builder_.finish();
  }

  /// Replaces an input, whose shape stays.
  void set_input(int input, const Tensor& tensor) { write(inputs_[input], tensor, blocks_[input]); }

  void run() {
    std::vector<std::vector<std::byte>> before;
    for (const Place* read : read_only()) {
      before.push_back(bytes_of(*read));
    }
    program_->run();
    for (std::size_t i = 0; i < read_only().size(); ++i) {
      require(bytes_of(*read_only()[i]) == before[i], "an operand that is only read was written");
    }
    for (const Place* place : all_places()) {
      require(place->memory->guards_are_whole(), "memory beside an operand was written");
    }
  }

  [[nodiscard]] const Rule& rule() const { return rule_; }
  /// This rank's block of the output.
  [[nodiscard]] std::vector<double> output_values() const {
    return output_alias_ >= 0 ? read(inputs_[output_alias_]) : read(output_);
  }
  /// The raw gradient of `input` over all of `block`.
  [[nodiscard]] std::vector<double> gradient_values(int input) const {
    return gradient_alias_[input] ? read(output_gradient_) : read(*gradients_[input]);
  }
  /// The new value of the variable that is `input`, lying as the rule takes it; none if forward did
  /// not give one.
  [[nodiscard]] std::optional<std::vector<double>> update_values(int input) const {
    const auto found = updated_.find(input);
    return found == updated_.end() ? std::nullopt : std::optional(read(found->second));
  }
  /// Labels of what was booked.
  [[nodiscard]] const std::vector<std::string>& labels() const { return program_->labels(); }
  [[nodiscard]] bool output_is_an_input() const { return output_alias_ >= 0; }

  // ---- Lowering
  // ----------------------------------------------------------------------------------
  const std::string& path() const override { return path_; }
  bool training() const override { return what_.training; }
  bool needs_gradient(int input) const override {
    return what_.output_gradient && (what_.wanted.empty() || what_.wanted[input]);
  }
  bool splits(std::string_view letters) const override {
    return std::any_of(letters.begin(), letters.end(), [&](char letter) {
      return split_.contains(letter) && mesh_.size_over(split_.at(letter)) > 1;
    });
  }
  double loss_weight() const override { return 1; }
  std::uint64_t random_key() const override { return random_key_; }
  const Shape& global_shape(int input) const override { return shapes_.at(input); }
  const Shape& global_output_shape() const override { return output_shape_; }
  const Block& block(int input) const override { return blocks_.at(input); }
  const Block& output_block() const override { return output_block_; }

  Operand input(int input) override { return inputs_.at(input).buffer; }
  Operand output() override {
    output_taken_ = true;
    return output_alias_ >= 0 ? inputs_[output_alias_].buffer : output_.buffer;
  }
  Operand output_gradient() override {
    require(backward_, "the output's gradient was asked for in forward");
    return output_gradient_.buffer;
  }
  std::optional<Derivative> derivative(int input) override {
    if (input != 0 || what_.derivative == Activation::linear) {
      return std::nullopt;
    }
    return Derivative{what_.derivative, inputs_[0].buffer, std::nullopt};
  }
  Operand input_gradient(int input) override {
    give_gradient(input);
    if (!gradients_[input]) {
      gradients_[input] = place(blocks_.at(input), ElementType::float32, "gradient");
    }
    return gradients_[input]->buffer;
  }
  void output_is_input(int input) override {
    require(!backward_ && !output_taken_,
            "the output was asked for before it was said to be an input");
    require(element_count(shape_of(output_block_)) == element_count(local_shape(input)),
            "the output is not as long as the input it is said to be");
    output_alias_ = input;
  }
  void input_gradient_is_output_gradient(int input) override {
    give_gradient(input);
    require(element_count(shape_of(output_block_)) == element_count(local_shape(input)),
            "the output's gradient is not as long as the gradient it is said to be");
    gradient_alias_[input] = true;
  }
  Operand scratch(const std::string& name, std::int64_t count, ElementType type) override {
    const std::int64_t bytes = count * element_bytes(type);
    const auto [at, added] = scratch_.try_emplace(name);
    if (added) {
      at->second = {builder_.scratch(bytes, name), bytes};
    }
    require(at->second.second == bytes, "scratch memory \"" + name + "\" changes its size");
    return at->second.first;
  }
  Operand updated(int input) override {
    require(!backward_, "a variable is updated in backward");
    const auto [at, added] = updated_.try_emplace(input);
    if (added) {
      at->second = place(blocks_.at(input), ElementType::float32, "update");
    }
    return at->second.buffer;
  }
  Operand step_scalars() override { return step_scalars_; }
  void emit(const KernelSpec& spec, std::vector<Operand> operands) override {
    builder_.emit(spec, std::move(operands), path_);
  }
  void all_reduce(std::string_view letters, ElementType type, Reduction reduction, Operand buffer,
                  std::int64_t count, std::int64_t global_count, const std::string& what) override {
    require(global_count >= count, "a rank reduces more than all of them together");
    std::vector<Axis> axes;
    for (const char letter : letters) {
      require(rule_.own.find(letter) != std::string::npos,
              "a letter is reduced that is not the rule's own");
      if (const auto found = split_.find(letter); found != split_.end()) {
        axes.insert(axes.end(), found->second.begin(), found->second.end());
      }
    }
    if (axes.empty()) {
      return;
    }
    std::vector<int> group;
    for (std::int64_t i = 0; i < mesh_.size_over(axes); ++i) {
      group.push_back(static_cast<int>(mesh_.neighbour(rank_, axes, i)));
    }
    builder_.emit(std::make_unique<Reduce>(device_, meeting_, rank_, group, type, reduction, count),
                  {buffer}, what);
  }

 private:
  struct Place {
    Block block;
    ElementType type = ElementType::float32;
    std::shared_ptr<GuardedMemory> memory;
    Buffer buffer;
  };

  class Reduce final : public Kernel {
   public:
    Reduce(Device& device, Meeting& meeting, int rank, std::vector<int> group, ElementType type,
           Reduction reduction, std::int64_t count)
        : device_(device),
          meeting_(meeting),
          rank_(rank),
          group_(std::move(group)),
          type_(type),
          reduction_(reduction),
          count_(count) {}
    void run(void* const* operands) override {
      std::vector<double> host(static_cast<std::size_t>(count_));  // wide enough for either type
      const std::int64_t bytes = count_ * element_bytes(type_);
      device_.copy_out(host.data(), operands[0], bytes);
      meeting_.all_reduce(rank_, group_, type_, reduction_, host.data(), count_);
      device_.copy_in(operands[0], host.data(), bytes);
    }

   private:
    Device& device_;
    Meeting& meeting_;
    int rank_;
    std::vector<int> group_;
    ElementType type_;
    Reduction reduction_;
    std::int64_t count_;
  };

  void require(bool holds, const std::string& otherwise) const {
    if (!holds) {
      throw std::runtime_error(path_ + ": " + otherwise);
    }
  }

  Place place(const Block& block, ElementType type, const std::string& label) {
    const std::int64_t bytes = element_count(shape_of(block)) * element_bytes(type);
    auto memory = std::make_shared<GuardedMemory>(device_, bytes);
    const Buffer buffer = builder_.external(memory->data(), bytes, label);
    return {block, type, std::move(memory), buffer};
  }

  static void write(const Place& place, const Tensor& tensor, const Block& block) {
    std::vector<double> values(
        static_cast<std::size_t>(element_count(shape_of(block))));  // wide enough
    std::int64_t next = 0;
    for_each_in_block(tensor.shape, block, [&](std::int64_t index) {
      put_number(place.type, values.data(), next++, tensor.values[index]);
    });
    place.memory->write(values.data());
  }

  static std::vector<double> read(const Place& place) {
    const std::vector<std::byte> bytes = place.memory->read();
    const auto count = static_cast<std::size_t>(element_count(shape_of(place.block)));
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = number_at(place.type, bytes.data(), static_cast<std::int64_t>(i));
    }
    return values;
  }

  static std::vector<std::byte> bytes_of(const Place& place) { return place.memory->read(); }

  std::vector<const Place*> read_only() const {
    std::vector<const Place*> places;
    for (const Place& input : inputs_) {
      places.push_back(&input);
    }
    if (output_gradient_.memory) {
      places.push_back(&output_gradient_);
    }
    return places;
  }

  std::vector<const Place*> all_places() const {
    std::vector<const Place*> places = read_only();
    places.push_back(&output_);
    for (const std::optional<Place>& gradient : gradients_) {
      if (gradient) {
        places.push_back(&*gradient);
      }
    }
    for (const auto& [input, place] : updated_) {
      places.push_back(&place);
    }
    return places;
  }

  void give_gradient(int input) {
    require(backward_ || output_shape_.empty(), "a gradient was asked for in forward");
    require(needs_gradient(input), "a gradient was asked for that is not wanted");
    gradient_given_.at(input) = true;
  }

  const OperationCase what_;
  const MeshShape mesh_;
  const Split split_;
  const int rank_;
  Meeting& meeting_;
  Device& device_;
  ProgramBuilder builder_;
  std::string path_;
  std::uint64_t random_key_;
  std::vector<Shape> shapes_;
  Shape output_shape_;
  Rule rule_;
  std::vector<Block> blocks_;
  Block output_block_;
  std::vector<Place> inputs_;
  Place output_;
  Place output_gradient_;
  std::vector<std::optional<Place>> gradients_;
  std::vector<bool> gradient_given_;
  std::vector<bool> gradient_alias_;
  int output_alias_ = -1;
  bool output_taken_ = false;
  bool backward_ = false;
  std::map<std::string, std::pair<Buffer, std::int64_t>> scratch_;
  std::map<int, Place> updated_;  // by input
  Memory scalars_;
  Buffer step_scalars_;
  std::optional<Program> program_;
};

namespace detail {

/// One rank's part of a tensor.
struct Part {
  Block block;
  std::vector<double> values;
};

/// Joins the ranks' parts of a tensor of `shape` that lies as `layout`, but for boxes in place of
/// blocks where there are windows. What several ranks that are no replicas have is added.
inline Tensor assemble(const Shape& shape, const Layout& layout, const MeshShape& mesh,
                       const std::vector<Part>& parts, const std::string& what) {
  Tensor whole(shape);
  std::vector<Axis> replicating;
  for (Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    if (layout.replicates(axis)) {
      replicating.push_back(axis);
    }
  }
  for (std::int64_t rank = 0; rank < mesh.rank_count(); ++rank) {
    const std::int64_t owner = mesh.neighbour(rank, replicating, 0);
    if (owner != rank) {
      const auto& mine = parts[rank].values;
      const auto& owners = parts[owner].values;
      const bool same = std::equal(
          mine.begin(), mine.end(), owners.begin(), owners.end(), [](double a, double b) {
            return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
          });
      if (!same) {
        throw std::runtime_error(
            fmt::format("{} differs on ranks {} and {}, which should hold the "
                        "same block of it",
                        what, owner, rank));
      }
      continue;
    }
    std::int64_t next = 0;
    for_each_in_block(shape, parts[rank].block, [&](std::int64_t index) {
      whole.values[index] += parts[rank].values[next++];
    });
  }
  return whole;
}

}  // namespace detail

/// Runs the operation on all ranks of `mesh`, spread by `split`.
inline OperationResult run_split(const Operation& operation, const OperationCase& what,
                                 const MeshShape& mesh, const Split& split) {
  const int ranks = static_cast<int>(mesh.rank_count());
  const std::size_t inputs = what.inputs.size();
  std::vector<detail::Part> outputs(ranks);
  std::vector<std::vector<detail::Part>> gradients(inputs, std::vector<detail::Part>(ranks));
  std::vector<std::vector<detail::Part>> updates = gradients;
  std::vector<std::vector<bool>> updated(ranks, std::vector<bool>(inputs, false));
  std::vector<std::string> errors(ranks);
  Meeting meeting(ranks);
  const auto wanted = [&](std::size_t input) {
    return what.output_gradient && (what.wanted.empty() || what.wanted[input]);
  };
  const auto run_rank = [&](int rank) {
    try {
      const std::unique_ptr<Device> device =
          make_device({.ranks_on_node = ranks, .rank_on_node = rank});
      ReferenceLowering lowering(operation, what, mesh, split, rank, *device, meeting);
      lowering.run();
      outputs[rank] = {lowering.output_block(), lowering.output_values()};
      for (std::size_t i = 0; i < inputs; ++i) {
        const int input = static_cast<int>(i);
        if (wanted(i)) {
          gradients[i][rank] = {lowering.block(input), lowering.gradient_values(input)};
        }
        if (const auto values = lowering.update_values(input)) {
          updates[i][rank] = {lowering.block(input), *values};
          updated[rank][i] = true;
        }
      }
    } catch (const std::exception& error) {
      errors[rank] = error.what();
      meeting.give_up();
    }
  };
  if (ranks == 1) {
    run_rank(0);
  } else {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back(run_rank, rank);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  std::string all_errors;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!errors[rank].empty()) {
      all_errors += fmt::format("rank {}: {}\n", rank, errors[rank]);
    }
  }
  if (!all_errors.empty()) {
    throw std::runtime_error(all_errors);
  }

  std::vector<Shape> shapes;
  for (const Tensor& input : what.inputs) {
    shapes.push_back(input.shape);
  }
  Rule rule = operation.rule(shapes);
  Shape output_shape = operation.output_shape(shapes);
  detail::take_several_sums(operation, rule, output_shape);
  OperationResult result;
  result.output =
      detail::assemble(output_shape, natural_layout(rule, split), mesh, outputs, "the output");
  result.gradients.resize(inputs);
  result.updates.resize(inputs);
  for (std::size_t i = 0; i < inputs; ++i) {
    for (int rank = 1; rank < ranks; ++rank) {
      if (updated[rank][i] != updated[0][i]) {
        throw std::runtime_error(
            fmt::format("ranks 0 and {} differ in whether they update input {}", rank, i));
      }
    }
    if (updated[0][i]) {
      result.updates[i] =
          detail::assemble(shapes[i], needed_layout(rule, split, static_cast<int>(i)), mesh,
                           updates[i], fmt::format("the update of input {}", i));
    }
    if (wanted(i)) {
      result.gradients[i] =
          detail::assemble(shapes[i], raw_layout(rule, split, static_cast<int>(i)), mesh,
                           gradients[i], fmt::format("the gradient of input {}", i));
    }
  }
  return result;
}

/// Runs the operation on one rank that holds everything.
inline OperationResult run_whole(const Operation& operation, const OperationCase& what) {
  return run_split(operation, what, MeshShape({{"all", 1}}, 1), {});
}

}  // namespace meshwork::test
