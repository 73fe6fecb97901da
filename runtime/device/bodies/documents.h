// Where documents begin. A place looks for the end of the document before: no further than its own
// goes.
#pragma once

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/documents.h"
#include "runtime/device/kernels/step_scalars.h"

namespace meshwork::bodies {

struct DocumentStart {
  const std::int32_t* x;
  const StepScalars* scalars;  // null: not of a piece
  float* y;
  std::int64_t places, all, first;
  std::int32_t end;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int32_t* const row = x + i / places * all;
    std::int64_t begin = first + i % places + (scalars == nullptr ? 0 : scalars->position);
    while (begin > 0 && row[begin - 1] != end) --begin;
    y[i] = static_cast<float>(begin);
  }
};

template <class Loops>
void add_documents(auto& kernels) {
  kernels.template add<DocumentStartSpec>([](const DocumentStartSpec& spec, const auto& context) {
    return Loops::elements(context, spec.rows * spec.places, 8, [=](void* const* operands) {
      return DocumentStart{at<const std::int32_t>(operands, 0),
                           spec.of_piece ? at<const StepScalars>(operands, 1) : nullptr,
                           at(operands, spec.of_piece ? 2 : 1),
                           spec.places,
                           spec.all,
                           spec.first,
                           spec.end};
    });
  });
}

}  // namespace meshwork::bodies
