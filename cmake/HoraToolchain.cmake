# Language, optimisation and sanitizer flags shared by all targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "hora needs GCC 12 or later, found ${CMAKE_CXX_COMPILER_VERSION} (Debian package: g++)")
endif()

# Results must be bit-identical on all ranks, hence no contraction into fused multiply-adds.
add_compile_options(-Wall -Wextra -ffp-contract=off)

set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1") # asserts stay on; line tables are enough for stacks
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

if(HORA_SANITIZE STREQUAL "address")
  set(hora_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(HORA_SANITIZE STREQUAL "thread")
  set(hora_sanitizers -fsanitize=thread)
elseif(HORA_SANITIZE)
  message(FATAL_ERROR "HORA_SANITIZE is '${HORA_SANITIZE}', must be empty, address or thread")
endif()
if(HORA_SANITIZE)
  add_compile_options(${hora_sanitizers} -O1 -fno-omit-frame-pointer)
  add_link_options(${hora_sanitizers})
endif()

find_program(HORA_CCACHE ccache)
mark_as_advanced(HORA_CCACHE)
if(HORA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What one copy of the sources has compiled serves all: the editable install, an installed package.
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${HORA_CCACHE})
endif()

# A library of the package finds its neighbours beside itself, wherever the package is installed.
function(hora_place_in_package target)
  set_target_properties(${target} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${HORA_PACKAGE_DIR}"
    BUILD_WITH_INSTALL_RPATH TRUE
    INSTALL_RPATH "$ORIGIN")
endfunction()
