// The form of the flat memory of a model's variables, gradients and optimizer slots: what stands
// where, who shares it, and who has to meet before it is read or written.
//
// All blocks of trainable variables that this rank holds stand in one stretch of float32, all
// gradients in a second one of the same form, and each optimizer slot in a further one; variables
// that are not trained stand in a stretch of their own. Within a stretch the order is that in which
// backward finishes the gradients, in *groups* by the axes over which they are reduced: a *bucket*
// is a span of one group, and is reduced as it stands, without packing, as soon as its last
// gradient is written. Variables that nothing leads from to the loss are a group behind all others:
// they are not updated, and neither shrink by weight decay nor count in a norm, as in Keras.
//
// Gradients are each rank's own. Where the values of a group live, and with them all else, is one
// word, its *home*. *Sharers* are ranks that share memory (collectives/transport.h).
//
//     home      values, narrow copy     slots        this rank updates    its sharers meet
//     own       this rank's alone       its own      all of the group     never
//     one copy  one for all sharers     in the same  its part (part_      behind the update, before
//               over the group's axes   way          begin) of a bucket   anybody reads
//     joined    blocks of all sharers   its own      its own block        ahead of the update, and
//               side by side                                              in each gathering
//
// What is there between two steps is the same whatever the home; whoever writes values or slots
// there lets the sharers of all groups meet first, since others may still be reading.
//
// *One copy.* The ranks over a group's axes hold the same blocks, so that those of them which share
// memory need one copy. Of each bucket a rank reduces its part alone, and updates that part of the
// copy. That is a reduce-scatter and an all-gather which move each element once. Where gradients
// are clipped by norms, or variables held to constraints, every rank has a copy of its own, reduces
// whole buckets, and updates all: it needs its blocks whole.
//
// *Joined.* A variable that is split, and gathered for use by ranks that all share memory, need not
// be copied for that: the blocks of these ranks stand side by side in one memory and in their order
// in the gathered block, so that the gathered block is there. To gather is to meet. A variable with
// joined blocks is a group of its own. What backward gives as its gradient is as large as the
// gathered block, and stands *whole* in room behind the gradients, which all such variables use in
// turn: there the owners of the blocks can sum it where it is.
//
// Products in bfloat16 read their factors rounded. Where the device takes them stored so, a group
// of whose elements products read at least half where they stand keeps a *narrow copy* of all its
// values in bfloat16, in the same form. The update stores both in one pass, each rank what it
// updates, and whoever else writes variables writes both. What is left for a step to round are
// weights that products do not read where they stand (gathered to another place, packed, or at no
// multiple of `narrow_alignment`), and those that are not trained.
//
// What is large begins where a cache line does. The gap before it is zero, belongs to the group and
// to the bucket, and stays zero.
//
// The form follows from the plan and from who shares with whom, so that programs for any batch
// length share it. What is shared changes neither what a step does nor the collectives that it
// counts, only how little they move; `meshwork plan`, which knows of no nodes, counts copies.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/transport.h"
#include "runtime/graph/plan.h"

namespace meshwork {

/// What an optimizer keeps for each parameter, laid out as the parameter.
struct Slot {
  std::string name;
  float initial = 0;
  bool not_negative = false;  // updates take its root or divide by it
};

/// The slot with running means of the parameters.
inline constexpr const char* average_slot = "average";

/// Where one variable's block stands.
struct ParameterSpan {
  int variable = -1;  // index into the graph's variables
  Layout layout;
  Block block;              // of this rank
  std::int64_t offset = 0;  // elements into its stretch
  std::int64_t count = 0;   // elements
  bool held = true;         // by this rank: it is at a place where the variable is
  int group = -1;           // of one that is trainable
  bool trainable = true;
  // Whether a step updates it: it is trainable, and the loss or its own penalty depends on it.
  bool updated = false;
  // Whether backward writes the gradient straight to its place here; then `reduced_over` are the
  // axes over which it is partial there, for its bucket to reduce. Any other is reduced on its way.
  bool in_place = false;
  std::vector<Axis> reduced_over;
};

/// A span of the gradients that one all-reduce completes.
struct GradientBucket {
  int group = -1;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t global_count = 0;  // elements of its variables, global: equal on all ranks
  std::vector<Axis> axes;
  std::vector<int> variables;
};

enum class Home : std::uint8_t { own, one_copy, joined };

/// Variables whose gradients are reduced over the same axes, side by side.
struct ParameterGroup {
  std::int64_t offset = 0;  // elements
  std::int64_t count = 0;
  std::vector<Axis> axes;  // none: complete as they are, or on their way
  bool updated = true;
  bool narrowed = false;  // it has a narrow copy
  Home home = Home::own;
  std::vector<Axis> shared_over;  // whose ranks share its memory; none: it is this rank's own
  Sharers sharers;                // of the one copy
  // Elements of its memory, and where those of this rank begin there: all, but of joined blocks.
  std::int64_t held = 0, own_begin = 0;
  // Of joined blocks: how they lie gathered, and where backward writes the whole gradient, in
  // elements behind the gradients; none if it comes in several parts, or in another layout.
  Layout gathered;
  std::optional<std::int64_t> whole_gradient;

  /// Where element `at` of the stretch stands in the group's memory.
  [[nodiscard]] std::int64_t place(std::int64_t at) const { return own_begin + at - offset; }
};

/// Elements that this rank updates.
struct UpdatedStretch {
  int group = -1;
  int bucket = -1;  // after whose reduction; -1: a whole group
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// The form of the flat memory on one rank.
struct ParameterForm {
  std::vector<ParameterSpan> spans;     // by variable
  std::vector<ParameterGroup> groups;   // by offset; the last is of those that are not updated
  std::vector<GradientBucket> buckets;  // in the order in which backward completes them
  std::vector<UpdatedStretch> updates;  // those of one copy in the order of the buckets
  std::int64_t trainable_count = 0;
  std::int64_t whole_count = 0;  // of room for whole gradients, behind the trainable_count others
  std::int64_t fixed_count = 0;
};

/// When a bucket of a group of so many bytes, global, is closed. The last one is complete when
/// backward ends, and what it takes then nothing hides: so there are a few, but none so small that
/// it is latency that it takes.
[[nodiscard]] std::int64_t bucket_bytes_for(std::int64_t bytes);

struct ParameterFormOptions {
  /// Those of the ranks over the axes that share memory. Without it, nobody does.
  std::function<Sharers(const std::vector<Axis>&)> sharers;
  bool one_copy = true;           // for sharers; else blocks are joined at most
  bool narrow_copies = false;     // of what products read in bfloat16
  std::int64_t bucket_bytes = 0;  // a bucket this large is closed; 0: bucket_bytes_for its group
};
[[nodiscard]] ParameterForm parameter_form(const Plan& plan, std::int64_t rank,
                                           const ParameterFormOptions& options = {});

/// The axes over which ranks share groups of `home`, or of any: those who have to meet about them.
[[nodiscard]] std::vector<std::vector<Axis>> shared_axes(const ParameterForm& form,
                                                         std::optional<Home> home = {});

}  // namespace meshwork
