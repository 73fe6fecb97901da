#include "runtime/device/kernels/windows.h"

#include <algorithm>

#include "collectives/error.h"
#include "collectives/joined_text.h"
#include "runtime/device/kernels/page.h"

namespace meshwork::spec {

std::string lengths(Windows windows, std::int64_t WindowDimension::*length) {
  std::vector<std::int64_t> all;
  for (const WindowDimension& along : windows) all.push_back(along.*length);
  return joined_text(all, "x");
}

std::string windows(Windows windows) {
  std::string text = " by " + lengths(windows, &WindowDimension::window);
  const auto append = [&](std::string_view word, std::int64_t WindowDimension::*member) {
    const std::int64_t usual = WindowDimension{}.*member;
    const bool all_usual =
        std::all_of(windows.begin(), windows.end(),
                    [=](const WindowDimension& at) { return at.*member == usual; });
    if (!all_usual) text += fmt::format(" {} {}", word, lengths(windows, member));
  };
  append("stride", &WindowDimension::stride);
  append("dilation", &WindowDimension::dilation);
  append("bins", &WindowDimension::bins);
  return text;
}

void check_windows(Windows windows, const std::string& kernel) {
  for (const WindowDimension& d : windows) {
    require(d.input >= 0 && d.output >= 0 && d.window >= 1 && d.stride >= 1 && d.dilation >= 1,
            kernel, "has a window, stride or dilation below 1, or a negative length");
  }
}

}  // namespace meshwork::spec
