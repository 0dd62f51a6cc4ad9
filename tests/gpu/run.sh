#!/usr/bin/env bash
# Proves the GPU backend on the machine it runs on, within six minutes, and ends with a table of its parts:
#
#     tests/gpu/run.sh [--only PART] [--kit FOLDER] [--output FOLDER] [--build FOLDER] [--stand-ins]
#
# --only PART      this part, or all whose names begin so
# --kit FOLDER     what tests/gpu/prepare.sh has made (default build/gpu-kit; without it, what is installed)
# --output FOLDER  receives table.txt, rows.jsonl (all results), parts.log and build.log (default build/gpu-run/output)
# --build FOLDER   takes this build, made with HORA_BUILD_TESTS, and the package in python/hora instead of building
# --stand-ins      runs on the stand-ins for CUDA's driver and NCCL, also what happens where there is no GPU
#
# PYTHON names the interpreter (default python3). Exit status: 1 if a part failed, 2 if nothing could be run.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
total_s=350

only='' kit="$root/build/gpu-kit" output="$root/build/gpu-run/output" build='' stand_ins=false
while (($# > 0)); do
    case "$1" in
        --stand-ins) stand_ins=true ;;
        --only | --kit | --output | --build)
            (($# > 1)) || { echo "$1 needs a value" >&2; exit 2; }
            printf -v "${1#--}" %s "$2"
            shift
            ;;
        *) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
    shift
done
python="${PYTHON:-python3}"
mkdir -p "$output"
output="$(cd "$output" && pwd)"
rm -f "$output"/{table.txt,rows.jsonl,parts.log,build.log}

use_kit() {
    local usr="$kit/usr" libraries
    libraries="$(dirname "$(find "$usr/lib" -name 'libopen-rte.so.*' | head -n 1)")"
    export PATH="$usr/bin:$PATH"
    export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export OPAL_PREFIX="$usr" OPAL_LIBDIR="$libraries" OPAL_PKGLIBDIR="$libraries/openmpi/lib/openmpi3"
    export PMIX_INSTALL_PREFIX="$libraries/pmix2" OMPI_MCA_mca_base_component_show_load_errors=0
    cmake_arguments+=(
        "-Dfmt_DIR=$libraries/cmake/fmt" "-Dspdlog_DIR=$libraries/cmake/spdlog" "-Dhwy_DIR=$libraries/cmake/hwy"
        "-Dpybind11_DIR=$kit/python/pybind11/share/cmake/pybind11"
        -DMPI_CXX_COMPILER=MPI_CXX_COMPILER-NOTFOUND "-DMPI_CXX_HEADER_DIR=$libraries/openmpi/include"
        -DMPI_CXX_LIB_NAMES=mpi "-DMPI_mpi_LIBRARY=$libraries/openmpi/lib/libmpi.so")
}

# hora for this Python, in a folder of its own.
build_hora() {
    local targets=(hora hora_mpi _core hora_gpu_packing) folder="$1"
    $stand_ins && targets+=(hora_fake_cuda hora_fake_nccl)
    mkdir -p "$folder/package"
    rm -rf "$folder/package/hora"
    cp -r "$root/python/hora" "$folder/package/hora"
    rm -f "$folder"/package/hora/*.so
    cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHORA_BUILD_PYTHON=ON \
        -DHORA_BUILD_GPU_TESTS=ON "-DHORA_PACKAGE_DIR=$folder/package/hora" \
        "-DPython_EXECUTABLE=$("$python" -c 'import sys; print(sys.executable)')" "${cmake_arguments[@]}" &&
        cmake --build "$folder" --target "${targets[@]}"
}

has_gpu() {
    "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null
}

{
    date -u
    uname -a
    "$python" --version
    command -v nvidia-smi >/dev/null && nvidia-smi || true
    "$python" -c 'import torch; print("PyTorch", torch.__version__, "NCCL", torch.cuda.nccl.version())' || true
} >"$output/parts.log" 2>&1

if ! $stand_ins && ! has_gpu; then
    echo "PyTorch finds no GPU here: the parts run on stand-ins, and those that need a GPU are skipped"
    stand_ins=true
fi
cmake_arguments=()
if [[ -d $kit/usr ]]; then
    use_kit
else
    echo "there is no kit in $kit: what is installed is used"
fi
export OMPI_MCA_plm_rsh_agent=/bin/false OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
export OMPI_MCA_btl_vader_single_copy_mechanism=none # needs a right that containers do not give

built_s=0
if [[ -n $build ]]; then
    package="$root/python"
else
    build="$root/build/gpu-run" package="$root/build/gpu-run/package"
    echo "building in $build"
    if ! build_hora "$build" >"$output/build.log" 2>&1; then
        tail -n 40 "$output/build.log" >&2
        echo "the build failed, its end is above" >&2
        exit 2
    fi
    built_s=$SECONDS
fi
$stand_ins && set -- --stand-ins
[[ -n $only ]] && set -- "$@" --only "$only"
exec "$python" "$root/tests/gpu/parts.py" --build "$build" --package "$package" --output "$output" \
    --seconds $((total_s - SECONDS)) --built "$built_s" "$@"
