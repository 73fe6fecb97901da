// A picture of a placed model as SVG: its parts, and what they send each other.
//
// A *part* is what runs at one coordinate of each axis that places something (placement.h): "stage=0",
// "tower=1". Each part is a box with the names of its layers. Layers that run at every part have a box
// above all of them. A block stands for its layers where they all run at the same places.
//
// Below the parts is an arrow for each pair between which values cross, with what crosses and its bytes
// in a step. Gradients go back along dashed arrows. The bytes are those of reports (plan_report.h), each
// of one rank of a part: what that rank books as `send`, of all micro-batches. The ranks differ by their
// part alone, so that each sends to others of them. A message to several peers counts once for each.
//
// A pipeline has its schedule below that: a row for each coordinate, a box for each action, when
// timeline_of says. Messages take no time there. The update, which follows, is not drawn.
//
// Up to 8 parts, names of layers and rows are drawn; the rest is elided in the middle. Messages of an
// elided part begin or end at the gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/plan_report.h"

namespace meshwork {

struct ModelParts {
  struct Part {
    std::string name;                 // "stage=0", "stage=0, tower=1"
    std::vector<std::string> layers;  // in the model's order, without those that run everywhere
  };
  /// What a rank of one part sends to its peer in another in a step.
  struct Messages {
    std::int64_t from = 0, to = 0;                   // parts
    bool back = false;                               // gradients
    std::map<std::string, std::int64_t> bytes = {};  // by what is sent, as reports name it
    [[nodiscard]] std::int64_t total() const;
  };

  std::string title;  // mesh, mode and batch
  std::string note;   // whose bytes these are
  std::vector<Part> parts;
  std::vector<std::string> everywhere;  // layers
  std::vector<Messages> messages;  // values, then gradients; of each ascending by `from`, then `to`
  std::optional<PlanReport::Pipeline> pipeline;
};

/// `reports`: of each part, in the order of the ranks' index over `plan.placing`, that of one rank. The
/// ranks have the same coordinates on all other axes. Throws `Error` if the plan places nothing.
[[nodiscard]] ModelParts parts_of(const Plan& plan, const std::vector<PlanReport>& reports);

/// A whole SVG document.
[[nodiscard]] std::string parts_picture(const ModelParts& model);

}  // namespace meshwork
