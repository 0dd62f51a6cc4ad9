"""``python -m hora.compat [--replace] SCRIPT | -m MODULE [arguments]``: run what was written for Horovod."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from hora.compat import install

USAGE = """\
usage: python -m hora.compat [--replace] SCRIPT [arguments]
       python -m hora.compat [--replace] -m MODULE [arguments]

Runs a script or module whose `import horovod.torch` finds hora.
--replace  also if Horovod itself is installed"""


def main(arguments: list[str]) -> None:
    """Run what the command line names as if Python had been given it."""
    replace = arguments[:1] == ["--replace"]
    arguments = arguments[replace:]
    is_module = arguments[:1] == ["-m"]
    arguments = arguments[is_module:]
    if not arguments or arguments[0].startswith("-"):
        is_help = arguments[:1] in (["-h"], ["--help"])
        print(USAGE, file=sys.stdout if is_help else sys.stderr)
        raise SystemExit(0 if is_help else 2)
    if not is_module:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)  # was the current folder, for `python -m`
    try:
        install(replace=replace)
    except RuntimeError as error:
        raise SystemExit(f"hora.compat: {error}") from error
    sys.argv[:] = arguments
    if is_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        run_file(arguments[0])


def run_file(path: str) -> None:
    """Run a script as ``__main__``, so that what it pickles or spawns finds its own definitions again."""
    if not Path(path).exists():
        raise SystemExit(f"hora.compat: no such file: {path}")
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
