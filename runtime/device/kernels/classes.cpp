#include "runtime/device/kernels/classes.h"

#include "collectives/error.h"

namespace meshwork {

std::string ClassColumns::text(std::string_view name) const {
  std::string text = spec::sized(name, {rows, columns});
  if (columns != classes) text += fmt::format(" at {} of {}", first_class, classes);
  if (weighted()) text += " weighted";
  return text;
}

KernelWork ClassColumns::work(int of_columns, int of_targets, int of_rows) const {
  const double all = spec::product({rows, columns});
  const double targets = target == TargetKind::sparse ? static_cast<double>(rows) : all;
  const double weights = weighted() ? static_cast<double>(rows / rows_a_weight) : 0;
  return spec::elements(of_columns * all + of_targets * targets + weights +
                        spec::product({rows, of_rows}));
}

void ClassColumns::require_sparse(std::string_view kernel) const {
  spec::require(target == TargetKind::sparse, std::string(kernel),
                "needs class numbers as targets");
}

std::string ClassComparisonSpec::text() const {
  const bool loss = crossentropy != Crossentropy::none;
  return at.text("class comparison") +
         spec::words({{loss, "loss"}, {gradient, "gradient"}, {!within.empty(), "rank"}});
}

void ClassComparisonSpec::check() const {
  spec::require(at.first_class == 0 && at.columns == at.classes, text(), "has not all classes");
  spec::require(!at.weighted() || crossentropy != Crossentropy::none, text(),
                "has weights of no loss");
  spec::require(!gradient || crossentropy != Crossentropy::none, text(),
                "has a gradient of no loss");
}

std::string RowWeightSpec::text() const {
  return spec::sized("row weight", {rows, columns}) +
         spec::words({{rows_a_weight > 0, "weighted"}, {rows_a_mask > 0, "masked"}});
}

}  // namespace meshwork
