"""Writes docs/reference from the docstrings and the table of settings; run it after changing either.

``--check`` only says whether the files are up to date; a test calls it.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import hora
import hora.keras
import hora.keras.callbacks
import hora.tensorflow
import hora.torch
from hora import _core

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
MODULES = (hora, hora.keras, hora.keras.callbacks, hora.tensorflow, hora.torch)
HEADING = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
TABLE = re.compile(r"^(={3,} [= ]+$.*^={3,} [= ]+$)", re.MULTILINE | re.DOTALL)
ROLE = re.compile(r":(?:func|class|meth|mod):`~?([^`]+)`")


def signature(thing: object) -> str | None:
    """Return the parameters of a callable as one writes them, without annotations."""
    if not callable(thing) or isinstance(thing, hora.ReduceOp) or thing is hora.ReduceOp:
        return None
    try:
        parameters = inspect.signature(thing).parameters.values()
    except ValueError:
        return None
    return f"({', '.join(map(parameter_text, parameters))})"


def parameter_text(parameter: inspect.Parameter) -> str:
    """Return a parameter with its default."""
    name = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
        parameter.kind, ""
    ) + parameter.name
    if parameter.default is parameter.empty:
        return name
    default = parameter.default
    if isinstance(default, hora.ReduceOp):
        return f"{name}={default.name}"
    if inspect.isclass(default):
        return f"{name}={'Compression.none' if default.__name__ == 'NoneCompressor' else default.__name__}"
    return f"{name}={default!r}"


def public_api() -> dict[str, dict[str, str | None]]:
    """Return the names that the modules export, each with its signature or None."""
    return {
        module.__name__: {name: signature(getattr(module, name)) for name in sorted(module.__all__)}
        for module in MODULES
    }


def to_markdown(docstring: str) -> str:
    """Turn a docstring of NumPy's form into Markdown."""
    text = ROLE.sub(r"`\1`", docstring).replace("``", "`")
    parts = HEADING.split(text)
    result = [parts[0].strip()]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        result += ["", f"**{title}**", "", section(title, body.strip("\n"))]
    return TABLE.sub(r"```\n\1\n```", "\n".join(result))


def section(title: str, body: str) -> str:
    """Return the body of one section."""
    if title == "Examples":
        return f"```pycon\n{body}\n```"
    items: list[str] = []
    for line in body.splitlines():
        if line.startswith(" "):
            items[-1] += f" {line.strip()}" if line.strip() else ""
        elif line.strip():
            name, colon, kind = line.partition(" : ")
            items.append(
                f"- `{name}`{f' ({kind})' if colon else ''}:" if title != "Returns" else f"- {line}:"
            )
    return "\n".join(items)


def module_page(module: ModuleType) -> str:
    """Return the page of one module."""
    lines = [f"# {module.__name__}", "", to_markdown(inspect.getdoc(module) or ""), ""]
    for name in sorted(module.__all__, key=str.lower):
        thing = getattr(module, name)
        docstring = (
            inspect.getdoc(thing) if callable(thing) and not isinstance(thing, hora.ReduceOp) else None
        )
        if docstring is None:
            continue
        lines += [
            f"## {name}",
            "",
            f"`{name}{signature(thing) or ''}`",
            "",
            to_markdown(docstring),
            "",
        ]
    return "\n".join(lines)


def settings_page() -> str:
    """Return the table of settings."""
    rows = [
        f"| `{name}` | {default or 'not set'} | {accepted} | {meaning} |"
        for name, default, accepted, meaning in _core.SETTINGS
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Environment variables, read by `init()`. A wrong value is refused there, with its name and what",
            "is accepted. Variables of Horovod that mean the same are read where ours is not set.",
            "",
            "| variable | default | accepted | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def pages() -> dict[str, str]:
    """Return what the files must hold."""
    result = {f"{module.__name__.replace('.', '-')}.md": module_page(module) for module in MODULES}
    result["settings.md"] = settings_page()
    result["api.json"] = json.dumps(public_api(), indent=1) + "\n"
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        path = REFERENCE / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not options.check:
            path.write_text(text)
    if stale and options.check:
        sys.exit(f"docs/reference is stale: {', '.join(stale)}; run python scripts/make_reference.py")
    print(
        f"docs/reference: {', '.join(stale) or 'nothing'} written"
        if stale
        else "docs/reference is up to date"
    )


if __name__ == "__main__":
    main()
