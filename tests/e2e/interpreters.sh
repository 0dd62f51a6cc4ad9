#!/usr/bin/env bash
# Installs hora with pip into a fresh virtual environment of every Python 3.10 to 3.13 on this machine, without PyTorch
# and, where pip finds the CPU build, with it, plain and editable, and runs a one-rank allreduce in each.
#
#     tests/e2e/interpreters.sh     (about 2 minutes per interpreter; needs the packages of scripts/apt-packages.txt)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# Works on a copy: an editable install writes into its source folder.
mkdir "$work/hora"
git ls-files -z --cached --others --exclude-standard | tar --null -T - --ignore-failed-read -c | tar -C "$work/hora" -x
cd "$work/hora" || exit
passed=0 failed=0

# Prints one path per interpreter; a pyenv shim that leads nowhere is left out.
interpreters() {
    local candidate version
    declare -A seen
    for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[0-3].*/bin/python python3.1{0..3} python3; do
        version="$("$candidate" -c 'import sys; print(*sys.version_info[:2], sep=".")' 2>/dev/null)" || continue
        [[ "$version" =~ ^3\.1[0-3]$ && -z "${seen[$version]:-}" ]] || continue
        seen[$version]=1
        command -v "$candidate"
    done
}

expect() {
    local name="$1"
    shift
    if "$@" >"$work/output" 2>&1; then
        echo "passed  $name"
        ((++passed))
    else
        echo "FAILED  $name"
        tail -n 30 "$work/output"
        ((++failed))
    fi
}

run_in() {
    (cd / && timeout 120 "$work/venv/bin/python" -c "$1")
}

NUMPY_CHECK='
import hora, numpy
hora.init()
assert hora.size() == 1
assert (hora.allreduce(numpy.arange(5.0), op=hora.Sum) == numpy.arange(5.0)).all()
'
NO_TORCH_CHECK='
try:
    import hora.torch
except ImportError as error:
    assert "pip install" in str(error), error
else:
    raise SystemExit("import hora.torch worked without PyTorch")
'
TORCH_CHECK='
import hora.torch as hvd, torch
hvd.init()
assert torch.equal(hvd.allreduce(torch.arange(5.0)), torch.arange(5.0))
'

for python in $(interpreters); do
    label="$("$python" --version)"
    rm -rf "$work/venv"
    "$python" -m venv "$work/venv" || { echo "FAILED  $label: no venv"; ((++failed)); continue; }
    expect "$label: pip install ." timeout 600 "$work/venv/bin/pip" install .
    expect "$label: allreduce of NumPy arrays" run_in "$NUMPY_CHECK"
    expect "$label: hora.torch names what is missing" run_in "$NO_TORCH_CHECK"
    expect "$label: pip install -e ." timeout 600 "$work/venv/bin/pip" install -e .
    expect "$label: allreduce of NumPy arrays, editable" run_in "$NUMPY_CHECK"
    if timeout 600 "$work/venv/bin/pip" install -r requirements/torch.txt >/dev/null 2>&1; then
        expect "$label: pip install . with PyTorch there" timeout 600 "$work/venv/bin/pip" install --force-reinstall --no-deps .
        expect "$label: allreduce of tensors" run_in "$TORCH_CHECK"
    else
        echo "skipped $label: pip finds no PyTorch for it here"
    fi
done
echo "$passed passed, $failed failed"
((failed == 0))
