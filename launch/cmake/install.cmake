# What `cmake --install` puts where:
#   lib        the library, one more for each of MESHWORK_LEVELS, and what find_package and pkg-config look for
#   include    the public headers (launch/public_headers.txt), under meshwork/ with the folders of the source tree
#   bin        the program and the scripts that start it
#   share/doc  READMEs, configurations and examples, in the folders of the source tree
#   share      manual pages and completion for bash and zsh, which the program itself prints
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
foreach(level ${MESHWORK_LEVELS})
  install(TARGETS meshwork_${level}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${level} NAMELINK_SKIP)
endforeach()
install(TARGETS meshwork-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(PROGRAMS launch/meshwork-mpirun launch/meshwork.sbatch
  DESTINATION ${CMAKE_INSTALL_BINDIR})

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS launch/public_headers.txt)
file(STRINGS launch/public_headers.txt public_headers REGEX "^[^#]")
foreach(header ${public_headers})
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${header})
  if(NOT headers)
    message(FATAL_ERROR "launch/public_headers.txt: there is no ${header}")
  endif()
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/meshwork/${folder})
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/meshwork DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(documents "")
foreach(room collectives configs launch layers runtime tests)
  list(APPEND documents ${room}/*README.md ${room}/*.svg)
endforeach()
file(GLOB_RECURSE documents CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${documents}
  configs/*.yaml configs/*.py launch/examples/*.cpp)
file(GLOB extension CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} launch/examples/extension/*.*)
list(APPEND documents ${extension})
foreach(document README.md launch/public_headers.txt ${documents})
  get_filename_component(folder ${document} DIRECTORY)
  install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()

# Debian's zsh does not look into site-functions below /usr.
set(zsh_folder zsh/site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(zsh_folder zsh/vendor-completions)
endif()
function(meshwork_printed file folder)
  install(CODE "
    execute_process(COMMAND \"$<TARGET_FILE:meshwork-program>\" ${ARGN} COMMAND_ERROR_IS_FATAL ANY
                    OUTPUT_FILE \"${PROJECT_BINARY_DIR}/printed/${file}\")")
  install(FILES ${PROJECT_BINARY_DIR}/printed/${file} DESTINATION ${folder})
endfunction()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/printed)
meshwork_printed(meshwork.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
meshwork_printed(meshwork.5 ${CMAKE_INSTALL_MANDIR}/man5 reference --man)
meshwork_printed(meshwork ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
meshwork_printed(_meshwork ${CMAKE_INSTALL_DATADIR}/${zsh_folder} completion zsh)

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
