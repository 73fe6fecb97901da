// StatedSource: samples whose files are not here. What a model and its losses say of them is known,
// so that a plan can be made; nothing can be read.
#pragma once

#include <utility>
#include <vector>

#include "runtime/data/source.h"

namespace meshwork {

class StatedSource final : public Source {
 public:
  /// Throws `Error` for a list of fields that is not legal.
  explicit StatedSource(std::vector<Field> fields)
      : Source(0, std::move(fields), "data that are not here") {}

  [[nodiscard]] bool readable() const override { return false; }
  [[nodiscard]] std::string fingerprint() const override { return "not here"; }

 private:
  // There are no rows.
  void read_rows(int, std::span<const std::int64_t>, const Block&, std::byte*) const override {}
};

}  // namespace meshwork
