#!/usr/bin/env bash
# Sets hora up for one goal and does nothing that is already done:
#
#     scripts/setup.sh demo|cpp|test|bench|lint
#
# Debian packages, .venv, pinned Python requirements, editable install (which builds the C++ part), and the
# goal's C++ programs: for cpp the tests, for test also fuzzers and the tests with sanitizers, for bench the
# benchmarks.
# Every step prints one line; the full output is in build/setup.log.
# PYTHON=/path/to/python3 chooses the interpreter of .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh
source scripts/packages.sh
source scripts/environment.sh

goal="${1:-demo}"
case "$goal" in
    demo | cpp | test | bench | lint) ;;
    *) echo "usage: scripts/setup.sh demo|cpp|test|bench|lint" >&2; exit 2 ;;
esac

ensure_packages_installable  # stops before anything is written
open_log build/setup.log
step "Debian packages" packages_present install_packages
step "virtual environment .venv" environment_works create_environment
step "Python requirements" requirements_current install_requirements base
step "PyTorch" requirements_current install_torch torch
case "$goal" in
    test) step "TensorFlow" requirements_current install_tensorflow tensorflow ;;
esac
case "$goal" in
    cpp | test | bench) step "test requirements" requirements_current install_requirements test ;;
esac
case "$goal" in
    bench) step "benchmark requirements" requirements_current install_requirements bench ;;
    lint) step "lint requirements" requirements_current install_requirements lint ;;
esac
case "$goal" in
    lint) ;;
    *)
        step "hora, editable install" hora_installed install_hora
        step "C++ build" false build_cpp "$goal"
        ;;
esac
case "$goal" in
    test)
        step "fuzzers" false build_with_clang fuzz
        step "AddressSanitizer build" false build_with_clang asan
        step "ThreadSanitizer build" false build_with_clang tsan
        ;;
esac
