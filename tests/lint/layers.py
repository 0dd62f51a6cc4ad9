"""Checks that every folder includes or imports only what lies below it (see docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = (
    {"base"},
    {"core"},  # plain data shared by all, hence also by transport
    {"transport"},
    {"collectives", "negotiation"},
    {"ops"},
    {"backends"},  # run what the rows of ops mean
    {"engine"},
    {"api"},
)
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}
FRAMEWORKS = {"torch", "tensorflow", "keras"}  # hora.<framework> is the only place that imports it
# Keras runs on another framework: these reach its front end, once the backend is known.
ABOVE = {
    "keras/reduction_tensorflow.py": {"hora.tensorflow"},
    "keras/reduction_torch.py": {"hora.torch"},
    "keras/state.py": {"hora.tensorflow", "hora.torch"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def check_cpp(file: Path, csrc: Path) -> Iterator[str]:
    """A folder includes only lower ones; negotiation sees no transport; transport/mpi alone sees MPI."""
    place = file.relative_to(csrc)
    folder = place.parts[0]
    if folder not in LEVEL:
        yield f"csrc/{place}: folder '{folder}' has no place in the layers"
        return
    for header in INCLUDE.findall(file.read_text()):
        target = header.partition("/")[0]
        if header == "mpi.h" and place.parts[:2] != ("transport", "mpi"):
            yield f"csrc/{place}: includes mpi.h outside transport/mpi"
        if target in LEVEL and target != folder and LEVEL[target] >= LEVEL[folder]:
            yield f"csrc/{place}: {folder} includes {header}, which is not below it"
        if folder == "negotiation" and target == "transport":
            yield f"csrc/{place}: negotiation includes {header}; it must know no transport"


def imported_modules(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def check_python(file: Path, package: Path) -> Iterator[str]:
    """hora.<framework> imports its framework and hora._*, never another framework or its front end.

    Of hora.keras the modules in ABOVE know the front ends of its backends.
    """
    place = file.relative_to(package)
    modules = imported_modules(ast.parse(file.read_text()), ".".join(("hora", *place.parts[:-1])))
    for module in sorted(set(modules)):
        parts = module.split(".")
        framework = parts[1] if parts[0] == "hora" and len(parts) > 1 else parts[0]
        if ".".join(parts[:2]) in ABOVE.get(str(place), ()):
            continue
        if framework in FRAMEWORKS and framework not in place.parts[:-1]:
            yield f"hora/{place}: imports {module}"


def main() -> int:
    csrc, package = ROOT / "csrc", ROOT / "python" / "hora"
    faults = [fault for file in sorted(csrc.rglob("*.[ch]*")) for fault in check_cpp(file, csrc)]
    faults += [fault for file in sorted(package.rglob("*.py")) for fault in check_python(file, package)]
    print("\n".join(faults) if faults else "layers: every include and import points downwards")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
