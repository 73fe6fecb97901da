// RoleMap: which ranks of the job have which role.
//
//     const int board = training.roles()->ranks_of("board").front();
//     training.rpc()->call(board, "post", loss);
//
// Ranks are numbered as calls between them number them (runtime/rpc). Those that train have the role
// "train".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

/// The name of the role of the ranks that train.
inline constexpr const char* training_role = "train";

class RoleMap {
 public:
  /// The next `count` ranks have the role that is written `name`, of this class of the catalog.
  void add(std::string name, std::string class_name, std::int64_t count);

  /// How many ranks there are.
  [[nodiscard]] int size() const;
  /// Whether any rank has the role, which is called as it is written or by its class.
  [[nodiscard]] bool has(std::string_view role) const;
  /// The ranks that have it, in rising order. Throws `Error`, with the nearest name, if none has.
  [[nodiscard]] std::vector<int> ranks_of(std::string_view role) const;
  /// The role of a rank, as it is written.
  [[nodiscard]] const std::string& role_of(int rank) const;

 private:
  struct Entry {
    std::string name, class_name;
    int first = 0, count = 0;
  };
  [[nodiscard]] const Entry* find(std::string_view role) const;

  std::vector<Entry> entries_;
};

}  // namespace meshwork
