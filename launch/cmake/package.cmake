# `cpack -G DEB`, or launch/build package, makes a package for Debian of what is installed.
#
# dpkg-shlibdeps finds the libraries that it depends on. mpirun is needed as well. Who compiles against the
# library needs what launch/setup installs, which the package suggests.
set(CPACK_PACKAGE_NAME meshwork)
set(CPACK_PACKAGE_CONTACT "Meshwork <meshwork@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)
file(STRINGS launch/setup packages REGEX "^packages=|^          [a-z]")
string(REGEX REPLACE "#[^;]*|packages=|[()]" " " packages "${packages}")
string(REGEX REPLACE "[ ;]+" ", " packages "${packages}")
string(REGEX REPLACE "^, |, $" "" packages "${packages}")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "${packages}, dataset-fashion-mnist")
# A package is for other machines.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package-check.cmake)
file(CONFIGURE OUTPUT package-check.cmake @ONLY CONTENT [[
if("@MESHWORK_NATIVE@" OR NOT "@CMAKE_INSTALL_PREFIX@" STREQUAL "/usr")
  message(FATAL_ERROR "This build is for this machine and @CMAKE_INSTALL_PREFIX@. launch/build package makes one that "
                      "runs on every machine, from /usr (-DMESHWORK_NATIVE=OFF -DCMAKE_INSTALL_PREFIX=/usr)")
endif()
]])
include(CPack)
