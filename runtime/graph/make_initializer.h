// How an initializer's page makes it of its described options (runtime/config/options.h).
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "runtime/config/options.h"
#include "runtime/graph/initializer.h"

namespace meshwork {

/// `values` gives a variable's ElementValue (initializer.h); `check` throws `Error` for shapes that
/// the initializer is not for. Throws `Error` for options out of range.
template <class Options, class Values>
[[nodiscard]] Initializer make_initializer(const std::string& name, const Options& options,
                                           Values values,
                                           std::function<void(const Shape&)> check = {}) {
  check_options(name, options);
  Settings settings = settings_of(options);
  const bool plain = settings == settings_of(Options());
  return {.name = name,
          .settings = std::move(settings),
          .plain = plain,
          .values = std::move(values),
          .check = std::move(check)};
}

}  // namespace meshwork
