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

# Documents and what shells and man read, made by this program.
set(documents ${prefix}/share/doc/meshwork)
foreach(file ${prefix}/bin/meshwork-mpirun ${prefix}/bin/meshwork.sbatch ${documents}/README.md
    ${documents}/launch/README.md ${documents}/launch/examples/custom_loop.cpp ${documents}/runtime/mesh/kernel.svg)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
run(${prefix}/bin/meshwork plan ${documents}/configs/fashion_mnist_mlp.yaml)
expect("hidden_1/kernel")
function(printed file)
  run(${prefix}/bin/meshwork ${ARGN})
  file(READ ${prefix}/share/${file} found)
  string(STRIP "${found}" found)
  if(output STREQUAL "" OR NOT output STREQUAL found)
    message(FATAL_ERROR "${file} is not what meshwork ${ARGN} prints")
  endif()
endfunction()
printed(man/man1/meshwork.1 man)
printed(man/man5/meshwork.5 reference --man)
printed(bash-completion/completions/meshwork completion bash)
printed(zsh/site-functions/_meshwork completion zsh)

set(link_flags)
if(FLAGS)
  set(link_flags -fsanitize=${FLAGS})
endif()
file(READ ${README} text)
if(NOT text MATCHES "```cpp\n(.*)\n```\n\n`cmake --install")
  message(FATAL_ERROR "${README} has no program before its line on cmake --install")
endif()
file(WRITE ${FOLDER}/source/mine.cpp "${CMAKE_MATCH_1}")
if(NOT text MATCHES "```cmake\n([^`]*)```")
  message(FATAL_ERROR "${README} has no CMakeLists.txt")
endif()
file(WRITE ${FOLDER}/source/CMakeLists.txt "${CMAKE_MATCH_1}
link_libraries(meshwork::meshwork)
add_executable(heat_surrogate ${documents}/launch/examples/heat_surrogate.cpp)
add_executable(parameter_server ${documents}/launch/examples/parameter_server.cpp)
")
run(${CMAKE_COMMAND} -S ${FOLDER}/source -B ${FOLDER}/readme -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${link_flags})
run(${CMAKE_COMMAND} --build ${FOLDER}/readme -j2)
run(${FOLDER}/readme/mine)
expect("Epoch 3/3")

# Examples that are programs: calls between ranks, and training in a simulation. On a part of the ranks
# that one gives the bits that it gives on as many of its own.
foreach(ranks 1 2 4)
  run(${MPIEXEC} -n ${ranks} --oversubscribe ${FOLDER}/readme/parameter_server)
  expect("^[0-9]+00 gradients, up to [0-9]+ updates old; the weights are right within 0\\.0[0-9]+$")
  run(${MPIEXEC} -n ${ranks} --oversubscribe ${FOLDER}/readme/heat_surrogate)
  expect("^loss 0.00[0-9]+; the surrogate is [0-9.]+ % off$")
  set(heat_on_${ranks} "${output}")
endforeach()
run(${MPIEXEC} -n 4 --oversubscribe ${FOLDER}/readme/heat_surrogate 2)
if(NOT output STREQUAL heat_on_2)
  message(FATAL_ERROR "heat_surrogate on 2 ranks: ${heat_on_2}\non 2 of 4: ${output}")
endif()

# The extension of launch/examples, as its README says, on a processor and on meshes.
file(COPY ${documents}/launch/examples/extension DESTINATION ${FOLDER})
# What each of its pages begins with is compiled once.
file(WRITE ${FOLDER}/once.cmake "cmake_language(DEFER CALL target_precompile_headers mine PRIVATE
  \$<\$<COMPILE_LANGUAGE:CXX>:<meshwork/extension.h>>)\n")
run(${CMAKE_COMMAND} -S ${FOLDER}/extension -B ${FOLDER}/extension/build -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_PROJECT_mine_INCLUDE=${FOLDER}/once.cmake
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${link_flags})
run(${CMAKE_COMMAND} --build ${FOLDER}/extension/build)
run(${prefix}/bin/meshwork reference Swish --extension ${FOLDER}/extension/build/mine.so)
expect("a learned beta for each feature")
run(${MPIEXEC} -n 4 --oversubscribe ${prefix}/bin/meshwork test-layer ${FOLDER}/extension/build/mine.so Swish
    --layouts 16)
expect("Swish of \\[7\\], \\[3, 7\\].*mesh x=4:.*mesh x=2 x y=2:.*Swish: ok: ")
# One with a wrong gradient is found and named.
file(READ ${FOLDER}/extension/swish.cpp text)
string(REPLACE "dy[i] * x[i] * slope" "dy[i] * slope" text "${text}")
file(WRITE ${FOLDER}/extension/swish.cpp "${text}")
run(${CMAKE_COMMAND} -E copy ${FOLDER}/extension/build/mine.so ${FOLDER}/true.so)
run(${CMAKE_COMMAND} --build ${FOLDER}/extension/build)
execute_process(COMMAND ${MPIEXEC} -n 2 --oversubscribe ${prefix}/bin/meshwork test-layer Swish --layouts 4
                        --extension ${FOLDER}/extension/build/mine.so
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 1)
  message(FATAL_ERROR "a wrong gradient ended with ${status}:\n${output}")
endif()
expect("Swish: WRONG: .*Swish of \\[7\\] on one rank: the gradient of swish/beta is wrong: element ")
run(${CMAKE_COMMAND} -E copy ${FOLDER}/true.so ${FOLDER}/extension/build/mine.so)
function(train loss)
  run(${CMAKE_COMMAND} -E chdir ${FOLDER}/extension ${ARGN} --check-plan)
  expect("Epoch 3/3\n20/20 [^\n]*loss: ${loss}")
endfunction()
train("0.0816" ${prefix}/bin/meshwork train mine.yaml)
foreach(mesh "data=2,model=1" "data=1,model=2" "data=1,model=3" "data=2,model=2" "data=1,model=4")
  string(REGEX MATCHALL "[0-9]" sizes "${mesh}")
  list(JOIN sizes "*" ranks)
  math(EXPR ranks "${ranks}")
  train("0.0816" ${MPIEXEC} -n ${ranks} --oversubscribe ${prefix}/bin/meshwork train mine.yaml --mesh ${mesh})
endforeach()

# Its schedule: the numbers do not change, and the run names it.
run(${CMAKE_COMMAND} -E chdir ${FOLDER}/extension
    ${MPIEXEC} -n 2 --oversubscribe ${prefix}/bin/meshwork train mine.yaml --mesh stage=2 --set layout={}
    --set "place={hidden: {stage: 0}, out: {stage: 1}}" --set fit.microbatches=4
    --set "pipeline={axis: stage, schedule: {WindowedGPipe: {window: 2}}}" --check-plan)
expect("stage holds 2 stages, WindowedGPipe of 2 with 4 micro-batches")
expect("Epoch 3/3\n20/20 [^\n]*loss: 0.0816")

# Its initializer, regularizer and constraint, whose numbers are those of one rank on every mesh.
set(sparse "model={input: [2], layers: [Dense: {name: hidden, units: 10, kernel_initializer: {SparseNormal: {kept: 0.5}}, kernel_regularizer: {FourthPowers: {factor: 0.1}}, kernel_constraint: {Bounded: {limit: 0.5}}}, Dense: {name: out, units: 16}]}")
foreach(ranks 1 2 3)
  run(${CMAKE_COMMAND} -E chdir ${FOLDER}/extension
      ${MPIEXEC} -n ${ranks} --oversubscribe ${prefix}/bin/meshwork train mine.yaml --mesh data=1,model=${ranks}
      --set "${sparse}" --set "layout={hidden/kernel: [~, model]}" --set checkpoint.directory=sparse_${ranks})
  string(REGEX MATCH "Epoch 3/3\n20/20 [^\n]*loss: ([0-9.]+)" found "${output}")
  if(ranks EQUAL 1)
    set(loss_of_one ${CMAKE_MATCH_1})
  endif()
  expect("Epoch 3/3\n20/20 [^\n]*loss: ${loss_of_one}")
endforeach()
run(${prefix}/bin/meshwork reference SparseNormal --extension ${FOLDER}/extension/build/mine.so)
expect("share of values that are not 0")

# Its transport: the sums are the same to rounding, and the checkpoint names it.
foreach(ranks 2 4)
  train("0.0816" ${MPIEXEC} -n ${ranks} --oversubscribe ${prefix}/bin/meshwork train mine.yaml
        --set "collectives={RingAllReduce: {least_bytes: 256}}" --set checkpoint.directory=ring_${ranks})
endforeach()
run(${CMAKE_COMMAND} -E chdir ${FOLDER}/extension ${MPIEXEC} -n 4 --oversubscribe ${prefix}/bin/meshwork train mine.yaml
    --set collectives=mpi --set checkpoint.directory=ring_4 --set fit.epochs=4 --resume)
expect("collectives: mpi, was RingAllReduce of least_bytes 256; numbers go on equal to rounding.*Epoch 4/4")
run(${prefix}/bin/meshwork reference transports --extension ${FOLDER}/extension/build/mine.so)
expect("RingAllReduce: sums of float32 go round a ring")

# Its role, on a rank that does not train.
run(${CMAKE_COMMAND} -E chdir ${FOLDER}/extension
    ${MPIEXEC} -n 3 --oversubscribe ${prefix}/bin/meshwork train mine.yaml
    --set "roles={train: 2, board: 1}" --set "fit.callbacks=[PostToBoard]")
expect("board: 3 posts, the least loss 0.0816")

# Its sampler, whose steps others learn from.
foreach(ranks 2 4)
  set(roles)
  if(ranks EQUAL 4)
    set(roles --set "roles={train: 2, sample: {ranks: 2, exploration: 0.5}}")
  endif()
  run(${CMAKE_COMMAND} -E chdir ${FOLDER}/extension
      ${MPIEXEC} -n ${ranks} --oversubscribe ${prefix}/bin/meshwork train sampler.yaml ${roles})
  expect("the best step from each cell: >>>>>")
endforeach()

# A library of the command line is in the configuration that a checkpoint keeps: a run can begin with that.
file(READ ${FOLDER}/extension/mine.yaml text)
string(REPLACE "extensions: [build/mine.so]\n" "" text "${text}")
file(WRITE ${FOLDER}/extension/without.yaml "${text}")
train("0.0816" ${prefix}/bin/meshwork train without.yaml --extension build/mine.so --set checkpoint.directory=kept)
run(${prefix}/bin/meshwork inspect ${FOLDER}/extension/kept --configuration)
expect("extensions: \\[build/mine.so\\]")
file(WRITE ${FOLDER}/extension/again.yaml "${output}\n")
train("0.0816" ${prefix}/bin/meshwork train again.yaml --set checkpoint.directory=again)

# A rank whose library has other bytes is told so.
file(COPY ${FOLDER}/extension/mine.yaml DESTINATION ${FOLDER}/stale)
file(COPY ${FOLDER}/extension/build/mine.so DESTINATION ${FOLDER}/stale/build)
file(APPEND ${FOLDER}/stale/build/mine.so "more")
execute_process(COMMAND ${MPIEXEC} --oversubscribe -n 1 --wdir ${FOLDER}/extension ${prefix}/bin/meshwork train mine.yaml
                        : -n 1 --wdir ${FOLDER}/stale ${prefix}/bin/meshwork train mine.yaml
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "ranks with different extensions trained:\n${output}")
endif()
expect("bytes of extensions")

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
