# NCCL: whether it is built, and the library `meshwork_nccl` that it is, which is opened when a transport for
# GPUs is made (library.h).
#
#   MESHWORK_NCCL=AUTO   (the default) with the CUDA device, if nccl.h and the library, 2.18 or later, are found
#                 ON     missing parts are an error
#                 OFF    a build without it: what ranks with GPUs send is staged, or MPI's
#   NCCL_ROOT            where it is, if not in the usual places
#
# Sets MESHWORK_HAS_NCCL.
meshwork_optional_part(MESHWORK_NCCL "Build the NCCL transport")
set(MESHWORK_HAS_NCCL FALSE)
if(MESHWORK_NCCL STREQUAL "OFF" OR (MESHWORK_NCCL STREQUAL "AUTO" AND NOT MESHWORK_HAS_CUDA))
  return()
endif()

set(missing_nccl "")
if(MESHWORK_HAS_CUDA)
  find_path(MESHWORK_NCCL_HEADERS nccl.h HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(MESHWORK_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${NCCL_ROOT} ${CUDAToolkit_LIBRARY_DIR}
    PATH_SUFFIXES lib lib64)
  mark_as_advanced(MESHWORK_NCCL_HEADERS MESHWORK_NCCL_LIBRARY)
  if(NOT MESHWORK_NCCL_HEADERS OR NOT MESHWORK_NCCL_LIBRARY)
    set(missing_nccl "nccl.h and libnccl.so")
  else()
    file(STRINGS ${MESHWORK_NCCL_HEADERS}/nccl.h nccl_version REGEX "define NCCL_(MAJOR|MINOR) ")
    string(REGEX REPLACE "[^0-9]+" "." nccl_version "${nccl_version}")
    string(REGEX REPLACE "^\\.|\\.$" "" nccl_version "${nccl_version}")
    if(nccl_version VERSION_LESS 2.18)
      set(missing_nccl "NCCL 2.18 (${MESHWORK_NCCL_HEADERS}/nccl.h is of ${nccl_version})")
    endif()
  endif()
else()
  set(missing_nccl "the CUDA device")
endif()
if(missing_nccl)
  meshwork_part_is_missing(MESHWORK_NCCL "The NCCL transport" ${missing_nccl})
  return()
endif()
set(MESHWORK_HAS_NCCL TRUE)
message(STATUS "The NCCL transport is built with NCCL ${nccl_version}")

add_library(meshwork_nccl MODULE
  ${PROJECT_SOURCE_DIR}/collectives/nccl/clique.cpp
  ${PROJECT_SOURCE_DIR}/collectives/nccl/exported.cpp
  ${PROJECT_SOURCE_DIR}/collectives/nccl/messages.cpp
  ${PROJECT_SOURCE_DIR}/collectives/nccl/nccl_transport.cpp
  ${PROJECT_SOURCE_DIR}/collectives/nccl/sibling_sums.cpp)
set_target_properties(meshwork_nccl PROPERTIES POSITION_INDEPENDENT_CODE ON
  DISABLE_PRECOMPILE_HEADERS ON INSTALL_RPATH "$ORIGIN")
target_include_directories(meshwork_nccl PUBLIC ${PROJECT_SOURCE_DIR})
target_include_directories(meshwork_nccl SYSTEM PRIVATE ${MESHWORK_NCCL_HEADERS} ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(meshwork_nccl PRIVATE meshwork fmt::fmt CUDA::cudart_static ${MESHWORK_NCCL_LIBRARY})
