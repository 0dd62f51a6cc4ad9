#!/usr/bin/env bash
# Compiles the vector kernels and their tests for arm64 and runs the tests under QEMU. What is built lies in
# build/arm64. Without the tools it says which Debian packages they are in, and skips (exit code 77).
#
# Only one instruction set is compiled, NEON, so nothing of Highway is linked and its headers, which are the same for
# every architecture, are enough. The programs are static, so that QEMU needs no arm64 libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/arm64
googletest=/usr/src/googletest/googletest

missing=()
command -v aarch64-linux-gnu-g++ >/dev/null || missing+=(g++-aarch64-linux-gnu)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
[[ -f $googletest/src/gtest-all.cc && -f /usr/include/gmock/gmock.h ]] || missing+=(libgtest-dev libgmock-dev)
[[ -f /usr/include/hwy/highway.h ]] || missing+=(libhwy-dev)
[[ -f /usr/include/fmt/format.h ]] || missing+=(libfmt-dev)
if ((${#missing[@]} > 0)); then
    echo "arm64: skipped, because of missing packages: apt-get install --no-install-recommends ${missing[*]}"
    exit 77
fi

export flags="-std=c++20 -O1 -ffp-contract=off -DHWY_COMPILE_ONLY_STATIC -DFMT_HEADER_ONLY -isystem $googletest/include
    -I$googletest -Icsrc -Itests/cpp"
export build
compiler=(aarch64-linux-gnu-g++)
command -v ccache >/dev/null && compiler=(ccache "${compiler[@]}")
export compile="${compiler[*]}"

sources=(csrc/base/error.cc csrc/collectives/{copy,convert,float_passes,integer_passes,kernels,reduce}.cc
    tests/cpp/collectives/{kernels,convert,reduce}_test.cc $googletest/src/gtest{-all,_main}.cc)
mkdir -p "$build"
rm -f "$build"/*.o
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} sh -c \
    '$compile $flags -c "{}" -o "$build/$(basename "{}" .cc).o"'
aarch64-linux-gnu-g++ -static -pthread "$build"/*.o -o "$build/kernel_tests"
qemu-aarch64 "$build/kernel_tests" --gtest_brief=1 "$@"
