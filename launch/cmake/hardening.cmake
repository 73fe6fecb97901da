# What makes damaged memory end an optimized build, instead of running on:
#
#   -fstack-protector-strong   functions with arrays look at their frame before they return
#   _FORTIFY_SOURCE            memcpy, printf, read and the like look at the size of their target; 3 sees
#                              sizes that are known when the program runs, 2 those known to the compiler
#   -z relro -z now            addresses of functions are looked up at the start, and read-only then
#
# Flags of the user or a distribution stay: who sets _FORTIFY_SOURCE or a stack protector, in CXXFLAGS or
# in the compiler itself, means that value. Sanitizers look at the same and more; they get none of this.
#
# Sets MESHWORK_HARDENED to what was added, of "fortify", "stack" and "now".
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)
set(MESHWORK_HARDENED "")
if(MESHWORK_SANITIZE)
  return()
endif()
set(optimized $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)

set(CMAKE_REQUIRED_FLAGS -O2)
check_cxx_source_compiles("#ifdef _FORTIFY_SOURCE\n#error\n#endif\nint main() {}" MESHWORK_MAY_FORTIFY)
if(MESHWORK_MAY_FORTIFY)
  foreach(level 3 2)
    set(CMAKE_REQUIRED_DEFINITIONS -D_FORTIFY_SOURCE=${level})
    check_cxx_source_compiles(
      "#include <stdlib.h>\n#if __USE_FORTIFY_LEVEL != ${level}\n#error\n#endif\nint main() {}"
      MESHWORK_CAN_FORTIFY_${level})
    if(MESHWORK_CAN_FORTIFY_${level})
      meshwork_compile_options($<${optimized}:-D_FORTIFY_SOURCE=${level}>)
      list(APPEND MESHWORK_HARDENED fortify)
      break()
    endif()
  endforeach()
  unset(CMAKE_REQUIRED_DEFINITIONS)
endif()
unset(CMAKE_REQUIRED_FLAGS)

check_cxx_compiler_flag(-fstack-protector-strong MESHWORK_CAN_PROTECT_STACKS)
if(MESHWORK_CAN_PROTECT_STACKS AND NOT CMAKE_CXX_FLAGS MATCHES "stack-protector")
  meshwork_compile_options($<${optimized}:-fstack-protector-strong>)
  list(APPEND MESHWORK_HARDENED stack)
endif()

check_linker_flag(CXX LINKER:-z,relro,-z,now MESHWORK_CAN_BIND_NOW)
if(MESHWORK_CAN_BIND_NOW)
  add_link_options($<${optimized}:LINKER:-z,relro,-z,now>)
  list(APPEND MESHWORK_HARDENED now)
endif()
