// LayoutMap: which layout belongs to which variable or layer output, by path, as in Keras.
//
//     LayoutMap layouts(mesh);
//     layouts["d1/kernel"] = {unsharded, "model"};
//     layouts[".*/embeddings"] = {"model", unsharded};
//
// Keys are patterns of paths, looked up as path_map.h says. Of what no key matches, the layout is
// replicated.
//
// What is wrong with a key by itself is an error when it is set: a malformed expression, an axis
// that the mesh lacks, an axis twice. What is wrong with it for a model is found by `find`,
// `resolve` and `unmatched`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/mesh/device_mesh.h"
#include "runtime/mesh/layout.h"
#include "runtime/mesh/path_map.h"

namespace meshwork {

/// The entry of a LayoutMap that a path has found.
struct LayoutMatch {
  std::string key;
  TensorLayout layout;
  std::string origin;  // where it is written, or which strategy has chosen it
  bool chosen = false;
};

class LayoutMap {
 public:
  explicit LayoutMap(MeshShape mesh) : mesh_(std::move(mesh)) {}
  explicit LayoutMap(const DeviceMesh& mesh) : mesh_(mesh.shape()) {}

  /// What `layouts[key]` gives: it can be assigned to, once.
  class Assignable {
   public:
    /// The same as LayoutMap::insert.
    void operator=(TensorLayout layout) && { map_.insert(std::move(key_), std::move(layout)); }
    Assignable(const Assignable&) = delete;

   private:
    friend class LayoutMap;
    Assignable(LayoutMap& map, std::string key) : map_(map), key_(std::move(key)) {}
    LayoutMap& map_;
    std::string key_;
  };
  [[nodiscard]] Assignable operator[](std::string key) { return {*this, std::move(key)}; }

  /// Adds a key. Throws `Error`: a key that is empty or there already, a malformed expression (with
  /// position and reason), an axis that the mesh lacks or that the layout uses twice.
  void insert(std::string key, TensorLayout layout, std::string origin = "", bool chosen = false);
  /// Removes exactly this key. Throws `Error` if it is not there, naming the nearest.
  void erase(std::string_view key);
  [[nodiscard]] bool contains(std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return map_.entries().size(); }
  [[nodiscard]] bool empty() const { return map_.entries().empty(); }
  /// All entries, in the order in which they were added.
  [[nodiscard]] std::vector<LayoutMatch> entries() const;
  [[nodiscard]] const MeshShape& mesh() const { return mesh_; }

  /// The entry for `path`, or none: then it is replicated. Throws `Error` if two or more patterns
  /// match, naming the path and the keys.
  [[nodiscard]] std::optional<LayoutMatch> find(const std::string& path) const;

  /// The layout of `match` for the tensor of `path`, whose global shape is `shape` (-1: open
  /// batch). Throws `Error` if the layout has not one entry for each dimension of the tensor.
  [[nodiscard]] Layout resolve(const LayoutMatch& match, const std::string& path,
                               const Shape& shape) const;

  /// The keys that match none of `paths`, the paths of all variables and outputs of a model.
  [[nodiscard]] std::vector<UnmatchedKey> unmatched(std::span<const std::string> paths) const {
    return map_.unmatched(paths);
  }

 private:
  struct Value {
    TensorLayout layout;
    bool chosen = false;
  };
  [[nodiscard]] static LayoutMatch match_of(const PathMap<Value>::Entry& entry);

  MeshShape mesh_;
  PathMap<Value> map_{"layout key"};
};

}  // namespace meshwork
