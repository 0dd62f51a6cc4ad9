# What `cmake --install` puts under a prefix for C and C++ users, who then find it with find_package(hora). pip uses none
# of this: setup.py takes the libraries from where the build puts them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All that api/default_session.h includes. tests/e2e/test_cmake_package.py notices one that is missing.
set(HORA_PUBLIC_HEADERS
  api/default_session.h
  api/session.h
  base/bytes.h
  base/clock.h
  base/config.h
  base/dtype.h
  base/exception.h
  base/faults.h
  base/stall_times.h
  base/thread_stack.h
  core/completions.h
  core/device_work.h
  core/handle.h
  core/op.h
  core/request.h
  core/tensor_ref.h
  core/topology.h
  engine/counters.h
  transport/mpi_module.h
  transport/transport.h)
set(HORA_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/hora")

target_include_directories(hora INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS hora EXPORT hora-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET hora_mpi)
  install(TARGETS hora_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}") # beside libhora, which opens it
endif()

install(FILES csrc/api/hora.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
foreach(header IN LISTS HORA_PUBLIC_HEADERS)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES "csrc/${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/hora/${folder}")
endforeach()
install(CODE "set(HORA_HEADERS \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/hora\")")
install(SCRIPT cmake/qualify_includes.cmake)

install(EXPORT hora-targets NAMESPACE hora:: DESTINATION "${HORA_CMAKE_DIR}")
configure_package_config_file(cmake/hora-config.cmake.in "${PROJECT_BINARY_DIR}/hora-config.cmake"
  INSTALL_DESTINATION "${HORA_CMAKE_DIR}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/hora-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/hora-config.cmake" "${PROJECT_BINARY_DIR}/hora-config-version.cmake"
  DESTINATION "${HORA_CMAKE_DIR}")
