"""What Horovod has for TensorFlow 1 only: each raises an error that names the replacement."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["BroadcastGlobalVariablesHook", "broadcast_global_variables"]

_REPLACEMENT = "is of TensorFlow 1; use broadcast_variables(model.variables, root_rank)"


def broadcast_global_variables(root_rank: int) -> NoReturn:
    """Refuse: TensorFlow 2 has no collection of global variables; use :func:`broadcast_variables`.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.broadcast_global_variables(0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: broadcast_global_variables is of TensorFlow 1; use broadcast_variables(...)
    """
    raise RuntimeError(f"broadcast_global_variables {_REPLACEMENT}")


class BroadcastGlobalVariablesHook:
    """Refuse: TensorFlow 2 has no session hooks; use :func:`broadcast_variables`.

    Examples
    --------
    >>> import hora.tensorflow as hvd
    >>> hvd.BroadcastGlobalVariablesHook(0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: BroadcastGlobalVariablesHook is of TensorFlow 1; use broadcast_variables(...)
    """

    def __init__(self, root_rank: int, device: str = "", **options: Any) -> None:
        raise RuntimeError(f"BroadcastGlobalVariablesHook {_REPLACEMENT}")
