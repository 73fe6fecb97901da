// Catch2, whichever of its two generations CMake found, with the names of both.
//
// 2.13 is one header, 3.x a library; they differ in where `Approx` and the matchers live. After
// this header `Approx`, `Catch::Approx`, and the matchers `Catch::Contains(text)`,
// `Catch::StartsWith`, `EndsWith`, `Matches`, `Equals`, `Message`, `WithinAbs`, `WithinRel`,
// `Predicate` and `Catch::Matchers::ContainsSubstring` mean the same under both.
// CHECK_THROWS_WITH(expression, matcher), CHECK_THAT, GENERATE and SECTION need no help.
#pragma once

#if MESHWORK_CATCH_VERSION >= 3

#include <catch2/catch_all.hpp>

#include <string>

using Catch::Approx;

namespace Catch {

inline auto Contains(const std::string& text, CaseSensitive sensitive = CaseSensitive::Yes) {
  return Matchers::ContainsSubstring(text, sensitive);
}
using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::Matches;
using Matchers::Message;
using Matchers::Predicate;
using Matchers::StartsWith;
using Matchers::WithinAbs;
using Matchers::WithinRel;
using Matchers::WithinULP;

}  // namespace Catch

#else

#include <catch2/catch.hpp>

#include <string>

namespace Catch {

using Detail::Approx;

namespace Matchers {

inline auto ContainsSubstring(const std::string& text,
                              CaseSensitive::Choice sensitive = CaseSensitive::Yes) {
  return Contains(text, sensitive);
}

}  // namespace Matchers
}  // namespace Catch

#endif
