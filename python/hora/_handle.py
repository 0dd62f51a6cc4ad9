"""Handles: what the ``*_async`` functions return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from hora import _core
from hora._adapter import Adapter, Tensor
from hora.errors import HorovodInternalError

__all__ = [
    "GroupHandle",
    "Handle",
    "Operand",
    "OperandHandle",
    "SplitsHandle",
    "poll",
    "synchronize",
    "synchronize_all",
]

Result = TypeVar("Result")
_TWICE = "synchronize: this handle was synchronized before, which is possible once"


class Handle(Generic[Result]):
    """An operation in flight. Keeps input and output alive; pass it to :func:`poll` and :func:`synchronize`.

    A handle may be dropped: the operation still completes.
    """

    __slots__ = ("_core", "_output")

    def __init__(self, core: _core.Handle, output: Result) -> None:
        self._core: _core.Handle | None = core
        self._output = output

    def _done(self) -> bool:
        return self._core is None or self._core.poll()

    def _wait(self) -> Result:
        core = self._core
        if core is None:
            raise ValueError(_TWICE)
        try:
            core.wait()
        except HorovodInternalError:
            self._core = None
            raise
        self._core = None
        return self._result(core)

    def _result(self, core: _core.Handle) -> Result:
        return self._output


class Operand(Generic[Tensor]):
    """One tensor of a call, checked: where its memory is, and how its result comes about.

    Attributes
    ----------
    ref : tuple
        Address, shape, dtype code and address of the output, as the core takes them.
    owners : tuple
        What owns that memory.
    device : int
        Number of the GPU whose memory it is; -1 for host memory.
    sizes : list of int
        Where the core allocates the result: after the call, the number of rows from each rank of the process
        set.
    """

    __slots__ = ("_adapter", "_output", "_source", "_target", "device", "ref", "sizes")

    def __init__(
        self, adapter: Adapter[Tensor], source: Tensor, output: Tensor | None, target: Tensor | None = None
    ) -> None:
        """``source`` is contiguous; without ``output`` the core allocates it; ``target`` gets a copy."""
        address, shape, dtype = adapter.to_ref(source)
        place = 0 if output is None else address if output is source else adapter.address(output)
        self.ref = (address, shape, dtype, place)
        self.device = adapter.device(source)
        self.sizes: list[int] = []
        self._adapter = adapter
        self._source = source
        self._output = output
        self._target = target

    @property
    def stream_of(self) -> Callable[[int], int]:
        """Tells the stream on which a thread works on a GPU."""
        return self._adapter.stream

    @property
    def owners(self) -> tuple[Tensor, Tensor | None]:
        return self._source, self._output

    def result(self, core: _core.Handle, number: int) -> Tensor:
        """Return the result of a complete call, of which this is the tensor with that number."""
        if self._output is None:
            output = core.output(number)
            self.sizes = output.sizes
            return self._adapter.from_output(output, like=self._source)
        if self._target is None:
            return self._output
        self._adapter.copy_into(self._target, self._output)
        return self._target


class OperandHandle(Handle[Tensor]):
    """Handle of a call of one operand."""

    __slots__ = ("_operand",)

    def __init__(self, core: _core.Handle, operand: Operand[Tensor]) -> None:
        self._core = core
        self._operand = operand

    @property
    def sizes(self) -> list[int]:
        """Rows from each rank, see :class:`Operand`."""
        return self._operand.sizes

    def _result(self, core: _core.Handle) -> Tensor:
        return self._operand.result(core, 0)


class GroupHandle(Handle[list[Tensor]]):
    """Handle of a grouped call; the result is a list in the order of the call's tensors."""

    __slots__ = ("operands",)

    def __init__(self, core: _core.Handle, operands: list[Operand[Tensor]]) -> None:
        self._core = core
        self.operands = operands

    def _result(self, core: _core.Handle) -> list[Tensor]:
        return [operand.result(core, number) for number, operand in enumerate(self.operands)]


class SplitsHandle(Handle[tuple[Tensor, Tensor]]):
    """Handle of an alltoall with splits: its result has the number of rows from each rank besides."""

    __slots__ = ("_adapter", "_gather")

    def __init__(self, gather: OperandHandle[Tensor], adapter: Adapter[Tensor]) -> None:
        self._gather = gather
        self._adapter = adapter

    def _done(self) -> bool:
        return self._gather._done()

    def _wait(self) -> tuple[Tensor, Tensor]:
        output = self._gather._wait()
        return output, self._adapter.integers(self._gather.sizes)


def poll(handle: Handle[Result]) -> bool:
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
    return handle._done()


def synchronize(handle: Handle[Result]) -> Result:
    """Wait until an operation is complete and return its result.

    In-place operations return the tensor they were called with; if that is not contiguous, this call is what
    writes the result into it. Grouped calls return a list, alltoall with splits returns its output and the
    received splits.

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
    return handle._wait()


def synchronize_all(handles: Iterable[Handle[Result]]) -> list[Result]:
    """Wait for all, then raise the first failure if there is one, so that no name stays in use."""
    results: list[Result] = []
    failure: HorovodInternalError | None = None
    for handle in handles:
        try:
            results.append(synchronize(handle))
        except HorovodInternalError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results
