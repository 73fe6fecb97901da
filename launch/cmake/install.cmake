# What `cmake --install` puts where: the library, the headers under include/meshwork with the folders of
# the source tree, the program with the scripts that start it, and what find_package and pkg-config need to find them.
include(CMakePackageConfigHelpers)

install(TARGETS meshwork EXPORT meshwork-targets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(MESHWORK_HAS_CUDA)
  install(TARGETS meshwork_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(MESHWORK_HAS_NCCL)
  install(TARGETS meshwork_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS meshwork-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(PROGRAMS launch/meshwork-mpirun launch/meshwork.sbatch
  DESTINATION ${CMAKE_INSTALL_BINDIR})

install(DIRECTORY collectives runtime layers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/meshwork
  FILES_MATCHING PATTERN "*.h" PATTERN "runtime/device/cuda" EXCLUDE PATTERN "collectives/nccl" EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/meshwork DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/meshwork)
install(EXPORT meshwork-targets NAMESPACE meshwork:: DESTINATION ${package_folder})
configure_package_config_file(launch/cmake/meshwork-config.cmake.in
  ${PROJECT_BINARY_DIR}/meshwork-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/meshwork-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/meshwork-config.cmake
  ${PROJECT_BINARY_DIR}/meshwork-config-version.cmake DESTINATION ${package_folder})

# The folders are relative to the prefix as a rule, but need not be.
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${kind}}")
    set(MESHWORK_PC_${kind} "${CMAKE_INSTALL_${kind}}")
  else()
    set(MESHWORK_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
list(TRANSFORM MPI_CXX_INCLUDE_DIRS PREPEND "-I" OUTPUT_VARIABLE MESHWORK_PC_MPI_CFLAGS)
list(APPEND MESHWORK_PC_MPI_CFLAGS -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
list(JOIN MESHWORK_PC_MPI_CFLAGS " " MESHWORK_PC_MPI_CFLAGS)
list(JOIN MPI_CXX_LIBRARIES " " MESHWORK_PC_MPI_LIBS)
# The prefix may be chosen when installing (--prefix), after this is read.
install(CODE "
  set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  set(MESHWORK_PC_LIBDIR \"\\${MESHWORK_PC_LIBDIR}\")
  set(MESHWORK_PC_INCLUDEDIR \"\\${MESHWORK_PC_INCLUDEDIR}\")
  set(MESHWORK_PC_MPI_CFLAGS \"${MESHWORK_PC_MPI_CFLAGS}\")
  set(MESHWORK_PC_MPI_LIBS \"${MESHWORK_PC_MPI_LIBS}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/launch/cmake/meshwork.pc.in\"
                 \"${PROJECT_BINARY_DIR}/meshwork.pc\" @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/meshwork.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
