#!/usr/bin/env bash
# Every lint, all of them even when one fails. With --fix, formats instead of complaining.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
bin=.venv/bin
failed=()

check() {
    local name="$1"
    shift
    echo "--- $name"
    "$@" || failed+=("$name")
}

mapfile -t cpp < <(find csrc bindings tests/cpp tests/gpu tests/stand_ins tests/fuzz benchmarks/cpp examples/cpp -name '*.cc' -o -name '*.[ch]' | sort)
if [[ "${1:-}" == --fix ]]; then
    "$bin/clang-format" -i "${cpp[@]}"
    "$bin/ruff" check --fix --quiet .
    "$bin/ruff" format --quiet .
fi
check clang-format "$bin/clang-format" --dry-run -Werror "${cpp[@]}"
check "ruff check" "$bin/ruff" check .
check "ruff format" "$bin/ruff" format --check .
check mypy "$bin/mypy"
check layers "$bin/python" tests/lint/layers.py

((${#failed[@]} == 0)) || { printf 'lint failed: %s\n' "${failed[*]}"; exit 1; }
echo "lint passed"
