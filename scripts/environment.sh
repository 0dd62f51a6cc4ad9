# shellcheck shell=bash
# The virtual environment, what is installed there, and the C++ build. Sourced by scripts/setup.sh.
# Stamps live in .venv, so that removing it makes everything be done again.

VENV_PYTHON=.venv/bin/python
STAMPS=.venv/hora-setup

pip_install() {
    "$VENV_PYTHON" -m pip install --disable-pip-version-check --no-input "$@"
}

# --- interpreter and .venv

# PyTorch 2.13.0's CPU build is easiest to find for CPython 3.11, so a 3.11 on PATH goes before another python3.
choose_python() {
    local candidate
    if [[ -n "${PYTHON:-}" ]]; then
        command -v "$PYTHON"
        return
    fi
    for candidate in python3 python3.11; do
        if is_python_311 "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    command -v python3
}

is_python_311() {
    "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null
}

environment_works() {
    "$VENV_PYTHON" -m pip --version
}

create_environment() {
    local python
    python="$(choose_python)" || { echo "No python3 found on PATH."; return 1; }
    rm -rf .venv
    if ! "$python" -m venv .venv; then
        rm -rf .venv
        echo "$python cannot create virtual environments."
        echo "On Debian: apt-get install --no-install-recommends python3-venv"
        return 1
    fi
    remark="$("$VENV_PYTHON" --version)"
}

# --- requirements

# stamp_matches NAME FILES... / write_stamp NAME FILES...: the files' contents have been dealt with in this .venv.
stamp_matches() {
    [[ -f "$STAMPS/$1" && "$(<"$STAMPS/$1")" == "$(cat "${@:2}" | sha256sum)" ]]
}

write_stamp() {
    mkdir -p "$STAMPS"
    cat "${@:2}" | sha256sum >"$STAMPS/$1"
}

requirements_current() {
    stamp_matches "$1" "requirements/$1.txt"
}

install_requirements() {
    pip_install --requirement "requirements/$1.txt"
    write_stamp "$1" "requirements/$1.txt"
}

# hora works without PyTorch, so where there is no file for the interpreter, set-up goes on.
install_torch() {
    if ! pip_install --requirement requirements/torch.txt; then
        is_python_311 "$VENV_PYTHON" && return 1
        remark="not found for $("$VENV_PYTHON" --version), going on without; Python 3.11 has it"
    fi
    write_stamp torch requirements/torch.txt
}

# Likewise without TensorFlow, whose tests are then left out.
install_tensorflow() {
    if ! pip_install --requirement requirements/tensorflow.txt; then
        is_python_311 "$VENV_PYTHON" && return 1
        remark="not found for $("$VENV_PYTHON" --version), going on without; Python 3.11 has it"
    fi
    write_stamp tensorflow requirements/tensorflow.txt
}

# --- hora itself

install_inputs() {
    find setup.py pyproject.toml CMakeLists.txt cmake bindings/*/CMakeLists.txt -type f | sort
}

hora_installed() {
    [[ -f build/dev/build.ninja ]] || return 1
    compgen -G 'python/hora/_core.*.so' || return 1
    stamp_matches hora $(install_inputs)
}

install_hora() {
    HORA_BUILD_DIR=build/dev pip_install --no-build-isolation --no-deps --verbose --editable .
    write_stamp hora $(install_inputs)
}

# Ninja knows best what is current; asking it costs a fraction of a second.
build_cpp() {
    case "$1" in
        cpp | test) cache_says HORA_BUILD_TESTS || cmake --preset dev ;;
        bench) cache_says HORA_BUILD_BENCHMARKS || cmake -B build/dev -DHORA_BUILD_BENCHMARKS=ON ;;
    esac
    cmake --build build/dev
}

build_with_clang() {
    command -v clang++ >/dev/null || return 0
    if ! { is_with_clang "$1" || cmake --fresh --preset "$1"; } || ! cmake --build --preset "$1"; then
        remark="failed; its tests say why"
    fi
}

is_with_clang() {
    grep -q '^CMAKE_CXX_COMPILER:.*clang' "build/$1/CMakeCache.txt"
}

cache_says() {
    grep -q "^$1:BOOL=\(ON\|TRUE\)" build/dev/CMakeCache.txt
}
