#!/usr/bin/env bash
# Fills a folder with what tests/gpu/run.sh needs on a GPU machine that has no network and no Debian packages:
#
#     tests/gpu/prepare.sh [FOLDER]    (default: build/gpu-kit)
#
# FOLDER/usr holds the header libraries and MPI, FOLDER/python holds pybind11. Headers and the libraries that go with
# them are those of this machine's packages; Open MPI and what it needs are downloaded with apt-get and unpacked,
# not installed. Fails when the folder is too large to be sent.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder="${1:-build/gpu-kit}"
limit_mib=64

header_packages=(libfmt-dev libspdlog-dev libhwy-dev)
# Of these the programs and libraries. Debian builds Open MPI for several networks; without their libraries it leaves
# those out. zlib, libstdc++ and libc are the machine's own.
mpi_packages=(openmpi-bin openmpi-common libopenmpi3 libpmix2 libmunge2 libhwloc15 libudev1
    libevent-core-2.1-7 libevent-pthreads-2.1-7)

# A link becomes what it points to: what is copied is sent as plain files.
copy_package() { # PACKAGE PATTERN
    local file
    while read -r file; do
        [[ -f $file ]] || continue
        mkdir -p "$folder$(dirname "$file")"
        cp --dereference "$file" "$folder$file"
    done < <(dpkg -L "$1" | grep -E "$2")
}

# The library packages behind a -dev package: the CMake files name them, and hora links one.
libraries_of() {
    dpkg-query --show --showformat '${Depends}\n' "$1" | tr ',' '\n' |
        sed -nE 's/^ *(lib(fmt|spdlog|hwy)[0-9a-z.]*)( .*)?$/\1/p' | grep -v -- '-dev$'
}

copy_headers() {
    local package library
    for package in "${header_packages[@]}"; do
        copy_package "$package" '^/usr/(include|lib/.*/cmake)/|\.so'
        for library in $(libraries_of "$package"); do
            copy_package "$library" '\.so'
        done
    done
    copy_package libopenmpi-dev '/openmpi/include/(mpi|mpi_portable_platform|mpi-ext)\.h$|/openmpi/include/openmpi/mpiext/'
    copy_package libopenmpi-dev '/openmpi/lib/libmpi\.so$'
}

copy_pybind11() {
    local package
    package="$("${PYTHON:-.venv/bin/python}" -c 'import pybind11; print(pybind11.__path__[0])')"
    mkdir -p "$folder/python"
    cp -r "$package" "$folder/python/"
    rm -rf "$folder/python/pybind11/__pycache__"
}

unpack_mpi() {
    local downloads package
    downloads="$(mktemp -d)"
    (cd "$downloads" && apt-get download "${mpi_packages[@]}" >/dev/null)
    for package in "$downloads"/*.deb; do
        dpkg -x "$package" "$folder"
    done
    du -sh "$downloads" | sed "s|$downloads|of downloaded packages|"
    rm -r "$downloads"
}

# What nobody reads there.
thin_out() {
    rm -rf "${folder:?}"/{etc,lib/udev,var} "${folder:?}"/usr/share/{doc,man,lintian,doc-base,bug}
}

if [[ -n "$(ls -A "$folder" 2>/dev/null)" && ! -d $folder/usr/include/hwy ]]; then
    echo "$folder has other things in it; name another folder" >&2
    exit 2
fi
rm -rf "$folder"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
unpack_mpi
copy_headers
copy_pybind11
thin_out
kib="$(du -sk "$folder" | cut -f1)"
LC_ALL=C awk "BEGIN { printf \"%s: %.1f MiB\n\", \"$folder\", $kib / 1024 }"
if ((kib > limit_mib * 1024)); then
    echo "more than $limit_mib MiB: too large to be sent" >&2
    exit 1
fi
