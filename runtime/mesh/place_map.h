// PlaceMap: which layers are at which coordinates of which axes, by path.
//
//     PlaceMap places(mesh);
//     places.insert("encoder", {{"stage", 0}});
//     places.insert("decoder/.*", {{"stage", 1}});
//
// Keys are patterns of the paths of layers and blocks, looked up as path_map.h says. What is said of
// a block is said of all in it, unless something nearer is said of that.
//
// Coordinates count from 0. If they go beyond an axis, it has the places that they name in as many
// consecutive runs, as equal as can be: of four stages, an axis of two has two at each coordinate, and
// one of a single rank all. So the same map is for meshes of any size.
//
// One axis can have the stages of a pipeline, several at each coordinate (graph/schedule.h). On it the
// coordinates are numbers of stages. Its layers can be *balanced*: the planner cuts the model into
// stages that take about equally long (graph/placement.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mesh/layout.h"
#include "runtime/mesh/path_map.h"

namespace meshwork {

/// No axis has more, nor more stages at a coordinate.
inline constexpr std::int64_t most_places = 1 << 16;

/// Coordinates `first` to `last` of an axis; one alone if `last` is unset.
struct PlacedAt {
  std::string axis;
  std::int64_t first = 0;
  std::optional<std::int64_t> last = {};
};

class PlaceMap {
 public:
  explicit PlaceMap(MeshShape mesh) : mesh_(std::move(mesh)) {}

  /// Adds a key. Throws `Error`: a key that is empty, malformed or there already, an axis that the
  /// mesh lacks or that is named twice, a coordinate below 0, a range that ends before it begins.
  void insert(std::string key, std::vector<PlacedAt> places, std::string origin = "");
  /// The stages of a pipeline are on `axis`. Balanced, no key places layers on it. Throws `Error` for an
  /// axis that the mesh lacks, for less than one chunk, and for keys beside balancing. `origin` is where
  /// that is written.
  void stage_over(const std::string& axis, std::int64_t chunks = 1, bool balanced = false,
                  std::string origin = "");
  [[nodiscard]] const std::optional<StagedAxis>& staged() const { return staged_; }
  [[nodiscard]] const std::string& staged_origin() const { return staged_origin_; }

  /// The axes that place something, ascending.
  [[nodiscard]] std::vector<Axis> axes() const;
  /// How many places are named on an axis: one more than the highest coordinate, 1 at least.
  [[nodiscard]] std::int64_t places_on(const std::string& axis) const;
  /// Those of them that no key names, ascending.
  [[nodiscard]] std::vector<std::int64_t> unnamed_on(const std::string& axis) const;
  /// Where the layer or block of `path` is: by what is said of it, or of the nearest block around it.
  /// By ascending axis, on that of a pipeline by numbers of stages. An axis that is not there says
  /// nothing, one of one rank neither. Throws `Error` if two patterns match one path.
  [[nodiscard]] Places find(std::string path) const;
  /// The keys that match none of `paths`, those of all layers and blocks.
  [[nodiscard]] std::vector<UnmatchedKey> unmatched(std::span<const std::string> paths) const {
    return map_.unmatched(paths);
  }

 private:
  MeshShape mesh_;
  std::optional<StagedAxis> staged_;
  std::string staged_origin_;
  PathMap<std::vector<PlacedAt>> map_{"place key"};
};

}  // namespace meshwork
