"""What SECURITY.md promises: nothing else unpickles, starts programs or makes temporary files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "hora"
REFUSED = {
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "subprocess": "starts programs",
    "tempfile": "makes temporary files",
    "pickle.loads": "unpickles",
    "pickle.load": "unpickles",
    "cloudpickle.loads": "unpickles",
    "cloudpickle.load": "unpickles",
    "marshal.loads": "unpickles",
    "eval": "evaluates text",
}
ALLOWED = {("_objects.py", "pickle.loads")}
REFUSED_IN_CPP = re.compile(r"\b(system|popen|execl|execv\w*|fork|tmpnam|tempnam|mktemp|tmpfile)\s*\(")


def uses(source: str) -> Iterator[str]:
    """Yield the names that the text of a module imports, and the dotted ones that it calls."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_python_modules_do_only_what_is_promised(path: Path) -> None:
    found = {(str(path.relative_to(PACKAGE)), name) for name in uses(path.read_text()) if name in REFUSED}
    assert found <= ALLOWED, [f"{name} {REFUSED[name]}" for _, name in found - ALLOWED]


def test_what_is_refused_is_noticed() -> None:
    source = "import subprocess\nfrom os import system\nimport pickle\npickle.loads(b'')"
    assert {"subprocess", "os.system", "pickle.loads"} <= set(uses(source))


def test_the_library_starts_nothing_and_makes_no_file_that_others_can_foresee() -> None:
    files = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".cc", ".h")]
    assert len(files) > 100
    found = {path.name: REFUSED_IN_CPP.findall(path.read_text()) for path in files}
    assert {name: calls for name, calls in found.items() if calls} == {}
