# The CUDA device: whether it is built, and the library `meshwork_cuda` that it is, which the program opens
# when it is asked for (library.h).
#
#   MESHWORK_CUDA=AUTO   (the default) if the toolkit (13.0, or one that knows the architectures), cuBLASLt
#                        and cuDNN 9 are found; else one line says what is missing
#                ON      missing parts are an error
#                OFF     a build without a trace of it
#   CMAKE_CUDA_ARCHITECTURES   default 80-real;90-real;100: code for those, and PTX for what comes later.
#                        One architecture, 90 say, takes about half of the time to compile.
#   CUDACXX, CUDNN_ROOT  where nvcc and cuDNN are, if not in the usual places
#
# Sets MESHWORK_HAS_CUDA. Our kernels are in .cu files, which nvcc compiles; they see no header of MPI,
# HDF5 or fmt's formats. What calls the libraries is plain C++.
meshwork_optional_part(MESHWORK_CUDA "Build the CUDA device")
set(MESHWORK_HAS_CUDA FALSE)
if(MESHWORK_CUDA STREQUAL "OFF")
  return()
endif()

# What there is.
set(missing_cuda "")
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100 CACHE STRING "GPU architectures to compile for" FORCE)
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(MESHWORK_NVCC nvcc PATHS ENV CUDA_PATH PATH_SUFFIXES bin)
  find_program(MESHWORK_NVCC nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(MESHWORK_NVCC)
  if(MESHWORK_NVCC)
    set(ENV{CUDACXX} ${MESHWORK_NVCC})
  endif()
endif()
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
  find_path(MESHWORK_CUDNN_HEADERS cudnn.h HINTS ${CUDNN_ROOT} ${CUDAToolkit_INCLUDE_DIRS}
    PATH_SUFFIXES include)
  find_library(MESHWORK_CUDNN cudnn HINTS ${CUDNN_ROOT} ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64)
  mark_as_advanced(MESHWORK_CUDNN_HEADERS MESHWORK_CUDNN)
  if(NOT TARGET CUDA::cublasLt)
    list(APPEND missing_cuda "cuBLASLt")
  endif()
  if(MESHWORK_CUDNN_HEADERS AND EXISTS ${MESHWORK_CUDNN_HEADERS}/cudnn_version.h)
    file(STRINGS ${MESHWORK_CUDNN_HEADERS}/cudnn_version.h cudnn_major REGEX "define CUDNN_MAJOR")
  endif()
  if(NOT MESHWORK_CUDNN OR NOT cudnn_major MATCHES "CUDNN_MAJOR +9")
    list(APPEND missing_cuda "cuDNN 9")
  endif()
else()
  list(APPEND missing_cuda "a working nvcc")
endif()
if(missing_cuda)
  meshwork_part_is_missing(MESHWORK_CUDA "The CUDA device" ${missing_cuda})
  return()
endif()
set(MESHWORK_HAS_CUDA TRUE)
message(STATUS "The CUDA device is built with CUDA ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")

# What is built.
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/device/cuda/*.cu
  ${PROJECT_SOURCE_DIR}/runtime/device/cuda/*.cpp)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows no option of nvcc beyond 17
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
list(FILTER sources EXCLUDE REGEX "/library.cpp$")
meshwork_bodies(cuda cu)
meshwork_pages(meshwork::cuda::add_kernels "Kernels& kernels" runtime/device/cuda/kernels.h)
# For each source nvcc compiles the headers for the host and for the GPU. With MESHWORK_UNITY, kernels therefore
# compile in batches as other sources do; CMake itself has such batches for CUDA from 3.31 on.
if(MESHWORK_UNITY)
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  list(REMOVE_ITEM sources ${kernels})
  set(made ${kernels})
  list(FILTER made INCLUDE REGEX "^${CMAKE_CURRENT_BINARY_DIR}/")
  set(number 0)
  while(kernels)
    list(SUBLIST kernels 0 8 batch)
    list(REMOVE_ITEM kernels ${batch})
    list(TRANSFORM batch REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN batch "" text)
    set(page ${CMAKE_CURRENT_BINARY_DIR}/pages/cuda_batch_${number}.cu)
    file(CONFIGURE OUTPUT ${page} CONTENT "${text}" @ONLY)
    set_source_files_properties(${page} PROPERTIES OBJECT_DEPENDS "${made}" SKIP_UNITY_BUILD_INCLUSION ON)
    list(APPEND sources ${page})
    math(EXPR number "${number} + 1")
  endwhile()
endif()
add_library(meshwork_cuda MODULE ${sources})
set_target_properties(meshwork_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON
  CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF CUDA_RUNTIME_LIBRARY Static
  DISABLE_PRECOMPILE_HEADERS ON LINKER_LANGUAGE CXX INSTALL_RPATH "$ORIGIN" UNITY_BUILD ${MESHWORK_UNITY})
target_include_directories(meshwork_cuda PUBLIC ${PROJECT_SOURCE_DIR})
target_include_directories(meshwork_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
  ${MESHWORK_CUDNN_HEADERS})
target_link_libraries(meshwork_cuda PRIVATE meshwork fmt::fmt CUDA::cudart_static CUDA::cublasLt
  ${MESHWORK_CUDNN})
target_compile_options(meshwork_cuda PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>")
if(MESHWORK_WERROR)
  target_compile_options(meshwork_cuda PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
endif()
