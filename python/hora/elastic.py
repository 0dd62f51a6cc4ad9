"""Elastic training: the place that scripts look for it; its members are not available yet."""

from __future__ import annotations

__all__: list[str] = []


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"elastic.{name} is not available yet")
