#include "runtime/device/kernels/windows.h"

#include "runtime/device/kernels/page.h"

namespace meshwork::spec {

std::string windows(const WindowDimension& rows, const WindowDimension& columns) {
  std::string text = sized(" by", {rows.window, columns.window});
  if (rows.stride != 1 || columns.stride != 1) {
    text += sized(" stride", {rows.stride, columns.stride});
  }
  if (rows.dilation != 1 || columns.dilation != 1) {
    text += sized(" dilation", {rows.dilation, columns.dilation});
  }
  if (rows.bins != 0 || columns.bins != 0) text += sized(" bins", {rows.bins, columns.bins});
  return text;
}

void check_windows(const WindowDimension& rows, const WindowDimension& columns,
                   const std::string& kernel) {
  for (const WindowDimension& d : {rows, columns}) {
    require(d.input >= 0 && d.output >= 0 && d.window >= 1 && d.stride >= 1 && d.dilation >= 1,
            kernel, "has a window, stride or dilation below 1, or a negative length");
  }
}

}  // namespace meshwork::spec
