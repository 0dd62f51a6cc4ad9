"""Handles: what the ``*_async`` functions return."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from hora import _core
from hora._adapter import Adapter, Tensor
from hora.errors import HorovodInternalError

__all__ = ["GatherHandle", "Handle", "ViewHandle", "poll", "synchronize", "synchronize_all"]


class Handle(Generic[Tensor]):
    """An operation in flight. Keeps input and output alive; pass it to :func:`poll` and :func:`synchronize`.

    A handle may be dropped: the operation still completes.
    """

    __slots__ = ("_core", "_output")

    def __init__(self, core: _core.Handle, output: Tensor) -> None:
        self._core: _core.Handle | None = core
        self._output = output

    def _result(self, core: _core.Handle) -> Tensor:
        return self._output


class ViewHandle(Handle[Tensor]):
    """Handle of an in-place operation on a tensor that is not contiguous: the result is copied into it."""

    __slots__ = ("_adapter", "_target")

    def __init__(self, core: _core.Handle, output: Tensor, target: Tensor, adapter: Adapter[Tensor]) -> None:
        super().__init__(core, output)
        self._target = target
        self._adapter = adapter

    def _result(self, core: _core.Handle) -> Tensor:
        self._adapter.copy_into(self._target, self._output)
        return self._target


class GatherHandle(Handle[Tensor]):
    """Handle of an allgather; after :func:`synchronize`, ``sizes`` holds each rank's number of rows."""

    __slots__ = ("_adapter", "sizes")

    def __init__(self, core: _core.Handle, source: Tensor, adapter: Adapter[Tensor]) -> None:
        super().__init__(core, source)
        self._adapter = adapter
        self.sizes: list[int] = []

    def _result(self, core: _core.Handle) -> Tensor:
        output = core.output()
        self.sizes = output.sizes
        return self._adapter.from_output(output, like=self._output)


def poll(handle: Handle[Tensor]) -> bool:
    """Return whether an operation is complete, so that :func:`synchronize` would not block.

    True also when the operation failed. Once it is True, the tensor's name may be used again.

    Parameters
    ----------
    handle : Handle
        As returned by an ``*_async`` function.

    Raises
    ------
    ValueError
        If ``handle`` is no handle.

    Examples
    --------
    >>> import hora, numpy as np
    >>> hora.init()
    >>> handle = hora.allreduce_async(np.ones(3))
    >>> while not hora.poll(handle):
    ...     pass
    """
    if not isinstance(handle, Handle):
        raise ValueError(f"poll: {handle!r} is not a handle returned by an *_async function")
    return handle._core is None or handle._core.poll()


def synchronize(handle: Handle[Tensor]) -> Tensor:
    """Wait until an operation is complete and return its result.

    In-place operations return the tensor they were called with; if that is not contiguous, this call is what
    writes the result into it.

    Parameters
    ----------
    handle : Handle
        As returned by an ``*_async`` function. Each handle can be synchronized once.

    Raises
    ------
    HorovodInternalError
        If the operation failed, on all ranks alike. An in-place tensor then holds undefined values when the
        failure is that of a peer or of the transport, and its old ones when the ranks' calls did not match.
    ValueError
        If ``handle`` is no handle or was synchronized before.

    Examples
    --------
    >>> import hora, numpy as np
    >>> hora.init()
    >>> handle = hora.allreduce_async(np.full(3, hora.rank()), op=hora.Max)
    >>> int(hora.synchronize(handle).max()) == hora.size() - 1
    True
    """
    if not isinstance(handle, Handle):
        raise ValueError(f"synchronize: {handle!r} is not a handle returned by an *_async function")
    core = handle._core
    if core is None:
        raise ValueError("synchronize: this handle was synchronized before, which is possible once")
    try:
        core.wait()
    except HorovodInternalError:
        handle._core = None
        raise
    handle._core = None
    return handle._result(core)


def synchronize_all(handles: Iterable[Handle[Tensor]]) -> list[Tensor]:
    """Wait for all, then raise the first failure if there is one, so that no name stays in use."""
    results: list[Tensor] = []
    failure: HorovodInternalError | None = None
    for handle in handles:
        try:
            results.append(synchronize(handle))
        except HorovodInternalError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results
