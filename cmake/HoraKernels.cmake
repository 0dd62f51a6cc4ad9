# The packing kernels of GPUs. Where nvcc is found they are compiled for every GPU that it knows, from compute capability
# 7.5 on; the source is embedded in any case, for NVRTC where hora runs. -DHORA_NVCC=OFF builds as if there were no nvcc.

enable_language(ASM)

set(HORA_CUDA_DIR "${PROJECT_SOURCE_DIR}/csrc/backends/cuda")
set(HORA_KERNEL_SOURCES
  "${HORA_CUDA_DIR}/pack_kernels.cu"
  "${HORA_CUDA_DIR}/pack_block.h"
  "${HORA_CUDA_DIR}/pack_elements.h"
  "${HORA_CUDA_DIR}/pack_arguments.h")

find_program(HORA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin
  DOC "nvcc, for the packing kernels of GPUs; OFF: leave them to NVRTC")

# Sets HORA_NVCC_FLAGS, empty where nvcc cannot be used. A toolkit that does not go with this compiler, say, must not stop
# the build; hence a trial.
function(hora_try_nvcc)
  set(HORA_NVCC_FLAGS "" PARENT_SCOPE)
  if(NOT HORA_NVCC)
    message(STATUS "GPU kernels: no nvcc, only their source is embedded")
    return()
  endif()
  execute_process(COMMAND "${HORA_NVCC}" --list-gpu-arch OUTPUT_VARIABLE listed ERROR_QUIET)
  string(REGEX MATCHALL "compute_[0-9]+" listed "${listed}")
  list(TRANSFORM listed REPLACE "compute_" "")
  list(SORT listed COMPARE NATURAL)
  set(flags -std=c++17 -ccbin "${CMAKE_CXX_COMPILER}" -Werror all-warnings)
  set(known "")
  foreach(architecture IN LISTS listed)
    if(architecture GREATER_EQUAL 75)
      list(APPEND known ${architecture})
      list(APPEND flags -gencode "arch=compute_${architecture},code=sm_${architecture}")
    endif()
  endforeach()
  if(known)
    list(GET known -1 newest)
    list(APPEND flags -gencode "arch=compute_${newest},code=compute_${newest}")
    file(WRITE "${PROJECT_BINARY_DIR}/kernels/trial.cu" "extern \"C\" __global__ void trial() {}\n")
    execute_process(
      COMMAND "${HORA_NVCC}" -std=c++17 -ccbin "${CMAKE_CXX_COMPILER}" -fatbin "-arch=sm_${newest}"
        -o "${PROJECT_BINARY_DIR}/kernels/trial.fatbin" "${PROJECT_BINARY_DIR}/kernels/trial.cu"
      RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  endif()
  if(NOT known OR NOT status EQUAL 0)
    message(STATUS "GPU kernels: ${HORA_NVCC} does not work, only their source is embedded\n${output}")
    return()
  endif()
  list(JOIN known " " architectures)
  message(STATUS "GPU kernels: ${HORA_NVCC} compiles them for ${architectures}")
  set(HORA_NVCC_FLAGS ${flags} PARENT_SCOPE)
  set(HORA_KERNEL_ARCHITECTURES ${known} PARENT_SCOPE) # a test compares
endfunction()

# hora_embed_kernels(<target>)
function(hora_embed_kernels target)
  set(folder "${PROJECT_BINARY_DIR}/kernels")
  set(HORA_FATBIN "${folder}/pack_kernels.fatbin")
  if(HORA_NVCC_FLAGS)
    add_custom_command(OUTPUT "${HORA_FATBIN}"
      COMMAND "${HORA_NVCC}" ${HORA_NVCC_FLAGS} -fatbin -Xfatbin -compress-all --threads 0
        -I "${PROJECT_SOURCE_DIR}/csrc" -o "${HORA_FATBIN}" "${HORA_CUDA_DIR}/pack_kernels.cu"
      DEPENDS ${HORA_KERNEL_SOURCES}
      COMMENT "Compiling GPU kernels" VERBATIM)
  else()
    set(HORA_FATBIN "${folder}/no_machine_code")
    if(NOT EXISTS "${HORA_FATBIN}")
      file(WRITE "${HORA_FATBIN}" "")
    endif()
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/embedded_kernels.S.in" "${folder}/embedded_kernels.S" @ONLY)
  set_source_files_properties("${folder}/embedded_kernels.S" PROPERTIES
    OBJECT_DEPENDS "${HORA_FATBIN};${HORA_KERNEL_SOURCES}")
  target_sources(${target} PRIVATE "${folder}/embedded_kernels.S")
endfunction()

hora_try_nvcc()
