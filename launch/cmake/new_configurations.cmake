# Makes configurations part of the program, as launch/new_configurations.h hands them out:
#
#   cmake -D OUTPUT=FILE.cpp -P new_configurations.cmake CONFIGURATION.yaml...
set(text "// Made of configs/new: launch/cmake/new_configurations.cmake.\n#include \"launch/new_configurations.h\"\n\n")
string(APPEND text "namespace meshwork {\n\nstd::vector<NewConfiguration> new_configurations() {\n  return {\n")
math(EXPR last "${CMAKE_ARGC} - 1")
set(after_script OFF)
foreach(i RANGE ${last})
  if(after_script)
    file(READ "${CMAKE_ARGV${i}}" configuration)
    get_filename_component(kind "${CMAKE_ARGV${i}}" NAME_WE)
    string(APPEND text "      {\"${kind}\", R\"yaml(${configuration})yaml\"},\n")
  elseif("${CMAKE_ARGV${i}}" MATCHES "new_configurations\\.cmake$")
    set(after_script ON)
  endif()
endforeach()
string(APPEND text "  };\n}\n\n}  // namespace meshwork\n")
file(WRITE "${OUTPUT}" "${text}")
