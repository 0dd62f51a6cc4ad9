# Finds what Debian packages provide. Everything that is missing is reported at once, as one apt-get line.

# hora_require(<name> <arguments of find_package...> PACKAGE <Debian packages...>)
macro(hora_require name)
  cmake_parse_arguments(require "" "" "PACKAGE" ${ARGN})
  find_package(${name} ${require_UNPARSED_ARGUMENTS})
  if(NOT ${name}_FOUND)
    list(APPEND HORA_MISSING_PACKAGES ${require_PACKAGE})
  endif()
endmacro()

macro(hora_stop_if_missing)
  if(HORA_MISSING_PACKAGES)
    list(JOIN HORA_MISSING_PACKAGES " " missing)
    message(FATAL_ERROR " hora: missing Debian packages: ${missing}\n"
      " Install them with: apt-get install --no-install-recommends ${missing}")
  endif()

  # Headers only: libspdlog.so and libfmt.so are not needed at run time. (Debian's own target
  # spdlog::spdlog_header_only would link libfmt.so.)
  add_library(hora_logging INTERFACE)
  target_include_directories(hora_logging SYSTEM INTERFACE
    $<TARGET_PROPERTY:spdlog::spdlog_header_only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(hora_logging INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(hora_logging INTERFACE fmt::fmt-header-only)
endmacro()
