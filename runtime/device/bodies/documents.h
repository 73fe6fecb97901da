// Where documents begin, by rows: the first place of a row looks for the end of the document before,
// and places behind it only at the number before theirs.
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
  MESHWORK_HOST_DEVICE void operator()(std::int64_t row) const {
    const std::int64_t from = first + (scalars == nullptr ? 0 : scalars->position);
    const std::int32_t* const numbers = x + row * all;
    float* const starts = y + row * places;
    std::int64_t start = from;
    while (start > 0 && numbers[start - 1] != end) --start;
    starts[0] = static_cast<float>(start);
    for (std::int64_t place = 1; place < places; ++place) {
      if (numbers[from + place - 1] == end) start = from + place;
      starts[place] = static_cast<float>(start);
    }
  }
};

template <class Loops>
void add_documents(auto& kernels) {
  kernels.template add<DocumentStartSpec>([](const DocumentStartSpec& spec, const auto& context) {
    const std::int64_t rows = spec.places > 0 ? spec.rows : 0;
    return Loops::elements(context, rows, 4 * (spec.all + spec.places), [=](void* const* operands) {
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
