"""Every public function has an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

MODULES = (
    "hora",
    "hora._features",
    "hora._grouped",
    "hora._handle",
    "hora._objects",
    "hora._ops",
    "hora._world",
    "hora.compression",
    "hora.errors",
    "hora.keras",
    "hora.keras.loading",
    "hora.keras.optimizer",
    "hora.keras.values",
    "hora.numpy",
    "hora.process_sets",
    "hora.tensorflow",
    "hora.tensorflow.absent",
    "hora.tensorflow.collectives",
    "hora.tensorflow.functions",
    "hora.tensorflow.optimizer",
    "hora.tensorflow.reductions",
    "hora.tensorflow.sync_batch_norm",
    "hora.tensorflow.tape",
    "hora.tensorflow.world",
    "hora.torch",
    "hora.torch.functions",
    "hora.torch.optimizer",
    "hora.torch.sparse",
)


def require_framework(name: str) -> None:
    """Skip the test of a front end whose framework is not installed."""
    framework = name.split(".")[1] if "." in name else ""
    if framework in ("tensorflow", "keras"):
        pytest.importorskip(framework)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    require_framework(name)
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("name", ["hora", "hora.torch", "hora.tensorflow", "hora.keras"])
def test_every_public_function_has_one(name: str) -> None:
    require_framework(name)
    module = importlib.import_module(name)
    functions = [member for name in module.__all__ if inspect.isroutine(member := getattr(module, name))]
    assert len(functions) > 20
    assert [function.__name__ for function in functions if ">>>" not in (function.__doc__ or "")] == []
