# Installs what was built into an empty folder and builds a program with it, once with find_package and
# once with pkg-config.
#   cmake -DBUILD=... -DSOURCE=... -DFOLDER=... -DCXX=... -P install.cmake

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
file(COPY ${SOURCE}/consumer.cpp DESTINATION ${FOLDER}/source)
file(WRITE ${FOLDER}/source/CMakeLists.txt
  "cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
find_package(meshwork 0.1 REQUIRED)
add_executable(consumer consumer.cpp)
target_link_libraries(consumer PRIVATE meshwork::meshwork)
")
run(${CMAKE_COMMAND} -S ${FOLDER}/source -B ${FOLDER}/consumer -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${link_flags})
run(${CMAKE_COMMAND} --build ${FOLDER}/consumer)
run(${FOLDER}/consumer/consumer)
expect("8 weights")

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
