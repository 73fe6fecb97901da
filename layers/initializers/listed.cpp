#include "layers/initializers/listed.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>

#include "collectives/error.h"
#include "collectives/fnv1a.h"

namespace meshwork {

Initializer Listed(std::vector<double> values) {
  Settings settings{
      {"values", fmt::format("{} of hash {:016x}", values.size(),
                             fnv1a(std::as_bytes(std::span(std::as_const(values)))))}};
  const auto count = std::ssize(values);
  return {.name = "listed",
          .settings = std::move(settings),
          .plain = false,
          .values = [all = std::make_shared<const std::vector<double>>(std::move(values))](
                        const InitializedVariable&) -> ElementValue {
            return [all](std::int64_t index) { return (*all)[static_cast<std::size_t>(index)]; };
          },
          .check =
              [count](const Shape& shape) {
                if (element_count(shape) != count) {
                  fail("{} listed values are not those of a variable of shape {}", count,
                       to_string(shape));
                }
              }};
}

}  // namespace meshwork
