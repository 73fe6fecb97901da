# Writes a device's page of the updates of optimizers:
#
#   cmake -D DEVICE=cpu -D ROOT=TREE -D OUTPUT=FILE -P updates.cmake PAGE...
#
# Those are the specifications of the pages that say how many blocks they take (runtime/device/kernels/update.h).
include(${CMAKE_CURRENT_LIST_DIR}/write.cmake)
set(specs "")
set(includes "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  set(page "${CMAKE_ARGV${i}}")
  if(page MATCHES "\\.h$")
    set(before "${specs}")
    file(STRINGS "${page}" lines REGEX "^struct [A-Za-z]+Spec {$| int blocks\\(\\) const {")
    foreach(line ${lines})
      if(line MATCHES "^struct ([A-Za-z]+)")
        set(spec ${CMAKE_MATCH_1})
      else()
        list(APPEND specs ${spec})
      endif()
    endforeach()
    if(NOT "${specs}" STREQUAL before)
      file(RELATIVE_PATH page "${ROOT}" "${page}")
      string(APPEND includes "#include \"${page}\"\n")
    endif()
  endif()
endforeach()
list(JOIN specs ", " specs)
write("${OUTPUT}" "// Made of the pages of updates: launch/cmake/updates.cmake.
#include \"runtime/device/${DEVICE}/update_loops.h\"

${includes}
namespace meshwork::${DEVICE} {

void add_updates(Kernels& kernels) {
  kernels.add<${specs}>([](const auto& spec, const Context& context) { return compile_update(spec, context); });
}

}  // namespace meshwork::${DEVICE}
")
