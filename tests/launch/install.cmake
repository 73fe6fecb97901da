# Installs what was built into an empty folder and builds programs with it: the README's with find_package,
# and another one with pkg-config.
#   cmake -DBUILD=... -DSOURCE=... -DREADME=... -DFOLDER=... -DCXX=... -P install.cmake

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect what)
  if(NOT output MATCHES "${what}")
    message(FATAL_ERROR "expected \"${what}\", found:\n${output}")
  endif()
endfunction()

set(prefix ${FOLDER}/prefix)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run(${prefix}/bin/meshwork --version)
expect("^meshwork ")

set(link_flags)
if(FLAGS)
  set(link_flags -fsanitize=${FLAGS})
endif()
file(READ ${README} text)
if(NOT text MATCHES "```cpp\n(.*)\n```\n\n`cmake --install")
  message(FATAL_ERROR "${README} has no program before its line on cmake --install")
endif()
file(WRITE ${FOLDER}/source/readme.cpp "${CMAKE_MATCH_1}")
file(WRITE ${FOLDER}/source/CMakeLists.txt
  "cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
find_package(meshwork 0.1 REQUIRED)
add_executable(readme readme.cpp)
target_link_libraries(readme PRIVATE meshwork::meshwork)
")
run(${CMAKE_COMMAND} -S ${FOLDER}/source -B ${FOLDER}/readme -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${link_flags})
run(${CMAKE_COMMAND} --build ${FOLDER}/readme)
run(${FOLDER}/readme/readme)
expect("Epoch 3/3")

find_program(PKG_CONFIG pkg-config REQUIRED)
file(GLOB_RECURSE module ${prefix}/meshwork.pc)
get_filename_component(folder ${module} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${folder})
run(${PKG_CONFIG} --cflags --libs meshwork)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${PKG_CONFIG} --variable=libdir meshwork)
set(libraries ${output})
run(${CXX} -std=c++20 ${link_flags} ${SOURCE}/consumer.cpp -o ${FOLDER}/with_pkg_config ${flags}
    -Wl,-rpath,${libraries})
run(${FOLDER}/with_pkg_config)
expect("8 weights")
