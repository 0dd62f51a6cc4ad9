"""The collectives, each once, over the :class:`~hora._adapter.Adapter` of a framework.

Rules that hold for all of them:

- Tensors have dtype bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32 or float64 and any
  shape, 0-d and empty ones included. A tensor that is not contiguous is copied first.
- ``name`` says which calls of different ranks belong together; a name may be used again once its operation
  was synchronized or polled as done. Calls without a name belong together by their order.
- What this rank must refuse raises ``ValueError`` or ``TypeError`` here and fails on the other ranks too.
  What the ranks disagree about raises ``HorovodInternalError`` on all of them and leaves their tensors as
  they were.
- ``process_set`` says which ranks take part, see :mod:`hora.process_sets`; others must not call.
- Ranks that have called :func:`join` contribute nothing; ``Average`` divides by the ranks that contributed.
- Gradients, for frameworks that record them: see :mod:`hora._gradients`.
"""

from __future__ import annotations

import operator
from typing import Any, Generic, overload

from hora import _core
from hora._adapter import Adapter, Tensor
from hora._arguments import Average, Sum, choose_op, read_splits, set_id, share_of_rows
from hora._calls import Prepared, begin_in_place, operands_of, refuse, start
from hora._gradients import (
    record_allgather,
    record_allreduce,
    record_alltoall,
    record_broadcast,
    record_reducescatter,
)
from hora._handle import Handle, Operand, OperandHandle, SplitsHandle, synchronize
from hora.compression import Compressor, NoneCompressor
from hora.process_sets import ProcessSet, global_process_set

__all__ = ["Collectives", "barrier", "join", "refuse"]

_ALLREDUCE = _core.OPS["allreduce"]
_ALLGATHER = _core.OPS["allgather"]
_BROADCAST = _core.OPS["broadcast"]
_BARRIER = _core.OPS["barrier"]
_ALLTOALL = _core.OPS["alltoall"]
_REDUCESCATTER = _core.OPS["reducescatter"]


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks of a process set have called it.

    Operations that are in flight do not matter. Ranks that have joined are not waited for.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.barrier()
    """
    try:
        members = set_id(process_set)
    except Exception as error:
        refuse(_BARRIER, None, error, process_set)
        raise
    _core.barrier(members).wait()


def join(device: int = -1) -> int:
    """Wait until all ranks have called it, while those that still work go on without this one.

    For data that is not shared out evenly: a rank that has no more batches joins. Until all have joined,

    - this rank contributes nothing to collectives of the global process set: no rows, and no value to a
      reduction. ``Average`` divides by the ranks that contributed; ``Sum``, ``Min``, ``Max`` and ``Product``
      are those of the contributing ranks.
    - a broadcast whose root has joined, and changes of process sets, fail on all ranks.
    - collectives of other process sets wait for all their members as always.

    Parameters
    ----------
    device : int
        Number of this rank's GPU, where the others go on with tensors on GPUs and this rank has not used one;
        otherwise not needed.

    Returns
    -------
    int
        The rank that joined last, the same on all ranks.

    Raises
    ------
    HorovodInternalError
        When a rank left.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> 0 <= hora.join() < hora.size()
    True
    """
    handle = _core.join(device)
    handle.wait()
    return handle.value()


class Collectives(Generic[Tensor]):
    """The collectives for the tensors of one framework; its bound methods are the public functions."""

    def __init__(self, adapter: Adapter[Tensor]) -> None:
        self.adapter = adapter

    def allreduce_async(
        self,
        tensor: Tensor,
        average: bool | None = None,
        name: str | None = None,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Begin to reduce a tensor over all ranks into a new one; see :func:`allreduce`.

        Returns
        -------
        Handle
            For :func:`poll` and :func:`synchronize`, which returns a tensor of the same shape and dtype.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> handle = hora.allreduce_async(np.ones(2), op=hora.Average)
        >>> hora.synchronize(handle)
        array([1., 1.])
        """
        return start(
            _ALLREDUCE,
            name,
            process_set,
            lambda members: self.prepare_allreduce(
                [tensor], False, average, op, prescale_factor, postscale_factor
            ),
        )

    def allreduce_async_(
        self,
        tensor: Tensor,
        average: bool | None = None,
        name: str | None = None,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Begin to reduce a tensor over all ranks in place; see :func:`allreduce`.

        Do not touch the tensor until :func:`synchronize`, which returns it. After an error other than a
        mismatch between ranks its values are undefined. No gradient is recorded.

        Returns
        -------
        Handle
            For :func:`poll` and :func:`synchronize`.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> ones = np.ones(2)
        >>> hora.synchronize(hora.allreduce_async_(ones)) is ones
        True
        """
        if average is None:
            reduction = Average if op is None else op
            core = begin_in_place(
                _ALLREDUCE, name, tensor, reduction, 0, prescale_factor, postscale_factor, process_set
            )
            if core is not None:
                return Handle(core, tensor)
        return start(
            _ALLREDUCE,
            name,
            process_set,
            lambda members: self.prepare_allreduce(
                [tensor], True, average, op, prescale_factor, postscale_factor
            ),
        )

    def prepare_allreduce(
        self,
        tensors: list[Tensor],
        in_place: bool,
        average: bool | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
    ) -> Prepared[Tensor]:
        """Check an allreduce."""
        return Prepared(
            operands_of(tensors, self.in_place_operand if in_place else self.like_operand),
            reduction=choose_op(average, op),
            prescale=float(prescale_factor),
            postscale=float(postscale_factor),
        )

    def in_place_operand(self, tensor: Tensor) -> Operand[Tensor]:
        """Check a tensor that gets the result."""
        source = self.adapter.contiguous(tensor, True)
        return Operand(self.adapter, source, source, None if source is tensor else tensor)

    def like_operand(self, tensor: Tensor) -> Operand[Tensor]:
        """Check a tensor whose result has the same shape and dtype."""
        source = self.adapter.contiguous(tensor)
        return Operand(self.adapter, source, self.adapter.empty_like(source))

    def gathered_operand(self, tensor: Tensor) -> Operand[Tensor]:
        """Check a tensor whose result the core allocates."""
        return Operand(self.adapter, self.adapter.contiguous(tensor), None)

    def allreduce(
        self,
        tensor: Tensor,
        average: bool | None = None,
        name: str | None = None,
        compression: Compressor = NoneCompressor,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """Reduce a tensor over all ranks into a new one of the same shape and dtype.

        Parameters
        ----------
        tensor
            Same shape and dtype on all ranks.
        average : bool, optional
            Deprecated: True is ``op=Average``, False ``op=Sum``.
        name : str, optional
            Which calls belong together.
        compression : Compressor
            Converts the tensor before it is sent and the result back.
        op : optional
            ``Average`` (default), ``Sum``, ``Min``, ``Max`` or ``Product``. The average of integers is their
            sum divided, truncated toward zero. For bool, ``Sum`` and ``Max`` are "or", ``Product`` and
            ``Min`` "and", and there is no ``Average``.
        prescale_factor, postscale_factor : float
            Multiplied to the tensor before, to the result after the reduction.
        process_set : ProcessSet
            The ranks that take part, by default all.

        Raises
        ------
        ValueError, TypeError
            For an argument that this rank refuses.
        HorovodInternalError
            On all ranks, when dtypes, shapes, ``op`` or factors differ between them, or a rank left.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.allreduce(np.full(2, 3), op=hora.Average)
        array([3, 3])
        """
        if self.adapter.differentiable(tensor):
            return record_allreduce(
                self, tensor, average, name, compression, op, prescale_factor, postscale_factor, process_set
            )
        if compression is NoneCompressor:
            return synchronize(
                self.allreduce_async(
                    tensor, average, name, op, prescale_factor, postscale_factor, process_set
                )
            )
        compressed, ctx = self.compress(_ALLREDUCE, tensor, name, compression, process_set)
        handle = self.allreduce_async(
            compressed, average, name, op, prescale_factor, postscale_factor, process_set
        )
        result: Tensor = compression.decompress(synchronize(handle), ctx)
        return result

    def allreduce_(
        self,
        tensor: Tensor,
        average: bool | None = None,
        name: str | None = None,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """Reduce a tensor over all ranks in place and return it; see :func:`allreduce`.

        No gradient is recorded. After an error other than a mismatch between ranks the values are undefined.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.allreduce_(np.ones(2))
        array([1., 1.])
        """
        return synchronize(
            self.allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
        )

    def allgather_async(
        self,
        tensor: Tensor,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Begin to concatenate the ranks' tensors; see :func:`allgather`.

        Returns
        -------
        Handle
            For :func:`poll` and :func:`synchronize`, which returns the concatenation.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> handle = hora.allgather_async(np.zeros((2, 3)))
        >>> hora.synchronize(handle).shape == (2 * hora.size(), 3)
        True
        """
        return self.start_allgather(tensor, name, process_set)

    def start_allgather(
        self, tensor: Tensor, name: str | None, process_set: ProcessSet
    ) -> OperandHandle[Tensor]:
        """Like :meth:`allgather_async`, for those who also want the number of rows from each rank."""
        return start(_ALLGATHER, name, process_set, lambda members: self.prepare_allgather([tensor]))

    def prepare_allgather(self, tensors: list[Tensor]) -> Prepared[Tensor]:
        """Check an allgather."""
        return Prepared(operands_of(tensors, self.gathered_operand))

    def allgather(
        self,
        tensor: Tensor,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """Concatenate the ranks' tensors along their first dimension, in the order of ranks.

        Parameters
        ----------
        tensor
            At least 1-d. The first dimension may differ between ranks and may be 0; dtype and the other
            dimensions are the same on all.
        name : str, optional
            Which calls belong together.
        process_set : ProcessSet
            The ranks that take part, by default all.

        Raises
        ------
        ValueError, TypeError
            For an argument that this rank refuses.
        HorovodInternalError
            On all ranks, when dtypes or dimensions but the first differ, or a tensor is 0-d.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.allgather(np.zeros((2, 3))).shape == (2 * hora.size(), 3)
        True
        """
        if self.adapter.differentiable(tensor):
            return record_allgather(self, tensor, name, process_set)
        return synchronize(self.start_allgather(tensor, name, process_set))

    def broadcast_async(
        self,
        tensor: Tensor,
        root_rank: int,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Begin to copy the root's tensor to all ranks, into a new one; see :func:`broadcast`.

        Returns
        -------
        Handle
            For :func:`poll` and :func:`synchronize`, which returns a tensor of the same shape and dtype.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.synchronize(hora.broadcast_async(np.arange(3), root_rank=0))
        array([0, 1, 2])
        """
        return start(
            _BROADCAST, name, process_set, lambda members: self.prepare_broadcast([tensor], False, root_rank)
        )

    def broadcast_async_(
        self,
        tensor: Tensor,
        root_rank: int,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Begin to copy the root's tensor to all ranks, in place; see :func:`broadcast`.

        Do not touch the tensor until :func:`synchronize`, which returns it. After an error other than a
        mismatch between ranks its values are undefined. No gradient is recorded.

        Returns
        -------
        Handle
            For :func:`poll` and :func:`synchronize`.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.synchronize(hora.broadcast_async_(np.arange(3), root_rank=0))
        array([0, 1, 2])
        """
        core = begin_in_place(_BROADCAST, name, tensor, Sum, root_rank, 1.0, 1.0, process_set)
        if core is not None:
            return Handle(core, tensor)
        return start(
            _BROADCAST, name, process_set, lambda members: self.prepare_broadcast([tensor], True, root_rank)
        )

    def prepare_broadcast(self, tensors: list[Tensor], in_place: bool, root_rank: int) -> Prepared[Tensor]:
        """Check a broadcast."""
        return Prepared(
            operands_of(tensors, self.in_place_operand if in_place else self.like_operand),
            root=operator.index(root_rank),
        )

    def broadcast(
        self,
        tensor: Tensor,
        root_rank: int,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """Copy the root's tensor to all ranks, into a new one of the same shape and dtype.

        Parameters
        ----------
        tensor
            Same shape and dtype on all ranks; the values of others than the root do not matter.
        root_rank : int
            Whose values all ranks get.
        name : str, optional
            Which calls belong together.
        process_set : ProcessSet
            The ranks that take part, by default all.

        Raises
        ------
        ValueError, TypeError
            For an argument that this rank refuses.
        HorovodInternalError
            On all ranks, when dtypes, shapes or ``root_rank`` differ between them, or a rank left.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.broadcast(np.arange(3), root_rank=0)
        array([0, 1, 2])
        """
        if self.adapter.differentiable(tensor):
            return record_broadcast(self, tensor, root_rank, name, process_set)
        return synchronize(self.broadcast_async(tensor, root_rank, name, process_set))

    def broadcast_(
        self,
        tensor: Tensor,
        root_rank: int,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """Copy the root's tensor to all ranks, in place, and return it; see :func:`broadcast`.

        No gradient is recorded. After an error other than a mismatch between ranks the values are undefined.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.broadcast_(np.arange(3), root_rank=0)
        array([0, 1, 2])
        """
        return synchronize(self.broadcast_async_(tensor, root_rank, name, process_set))

    def alltoall_async(
        self,
        tensor: Tensor,
        splits: Any = None,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Any]:
        """Begin to send rows of a tensor to every rank; see :func:`alltoall`.

        Returns
        -------
        Handle
            For :func:`poll` and :func:`synchronize`, which returns what :func:`alltoall` does.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> handle = hora.alltoall_async(np.full(hora.size(), hora.rank()))
        >>> hora.synchronize(handle).tolist() == list(range(hora.size()))
        True
        """
        handle = self.start_alltoall(tensor, splits, name, process_set)
        return handle if splits is None else SplitsHandle(handle, self.adapter)

    def start_alltoall(
        self, tensor: Tensor, splits: Any, name: str | None, process_set: ProcessSet
    ) -> OperandHandle[Tensor]:
        """Begin an alltoall; the handle holds the number of rows from each rank when it is complete."""
        return start(
            _ALLTOALL, name, process_set, lambda members: self.prepare_alltoall(tensor, splits, members)
        )

    def prepare_alltoall(self, tensor: Tensor, splits: Any, members: int) -> Prepared[Tensor]:
        """Check an alltoall of the process set ``members``."""
        operand = self.gathered_operand(tensor)
        shape = operand.ref[1]
        return Prepared([operand], splits=read_splits(splits, shape[0] if shape else 0, members))

    @overload
    def alltoall(
        self,
        tensor: Tensor,
        splits: None = None,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor: ...

    @overload
    def alltoall(
        self,
        tensor: Tensor,
        splits: Any,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> tuple[Tensor, Tensor]: ...

    def alltoall(
        self,
        tensor: Tensor,
        splits: Any = None,
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Send some rows of a tensor to every rank, and concatenate the rows that come from every rank.

        Parameters
        ----------
        tensor
            At least 1-d. The first dimension may differ between ranks and may be 0; dtype and the other
            dimensions are the same on all.
        splits : tensor or list, optional
            1-d, of integers: how many rows go to each rank, in the order of ranks; zeros are allowed. They
            add up to the number of rows. Without it every rank gets equally many, and the number of rows must
            divide by the number of ranks.
        name : str, optional
            Which calls belong together.
        process_set : ProcessSet
            The ranks that take part, by default all.

        Returns
        -------
        tensor or (tensor, tensor)
            The rows received, in the order of ranks. With ``splits`` also how many came from each rank, as
            int32.

        Raises
        ------
        ValueError, TypeError
            For an argument that this rank refuses, such as splits of a wrong length or sum.
        HorovodInternalError
            On all ranks, when dtypes or dimensions but the first differ, or a tensor is 0-d.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> rows, received = hora.alltoall(np.ones((hora.size(), 2)), splits=[1] * hora.size())
        >>> rows.shape == (hora.size(), 2) and received.tolist() == [1] * hora.size()
        True
        """
        if self.adapter.differentiable(tensor):
            output, received = record_alltoall(self, tensor, splits, name, process_set)
        else:
            handle = self.start_alltoall(tensor, splits, name, process_set)
            output, received = synchronize(handle), handle.sizes
        return output if splits is None else (output, self.adapter.integers(received))

    def reducescatter_async(
        self,
        tensor: Tensor,
        name: str | None = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Handle[Tensor]:
        """Begin to reduce a tensor and share out its rows; see :func:`reducescatter`.

        Returns
        -------
        Handle
            For :func:`poll` and :func:`synchronize`, which returns this rank's rows.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> handle = hora.reducescatter_async(np.ones((2 * hora.size(), 3)))
        >>> hora.synchronize(handle).shape
        (2, 3)
        """
        return start(
            _REDUCESCATTER,
            name,
            process_set,
            lambda members: self.prepare_reducescatter(
                [tensor], op, prescale_factor, postscale_factor, members
            ),
        )

    def prepare_reducescatter(
        self, tensors: list[Tensor], op: int, prescale_factor: float, postscale_factor: float, members: int
    ) -> Prepared[Tensor]:
        """Check a reducescatter of the process set ``members``."""
        return Prepared(
            operands_of(tensors, lambda tensor: self.scattered_operand(tensor, members)),
            reduction=choose_op(None, op),
            prescale=float(prescale_factor),
            postscale=float(postscale_factor),
        )

    def scattered_operand(self, tensor: Tensor, members: int) -> Operand[Tensor]:
        """Check a tensor of whose result this rank gets some rows."""
        source = self.adapter.contiguous(tensor)
        shape = self.adapter.to_ref(source)[1]
        if not shape:
            raise ValueError("a scalar has no first dimension to scatter along")
        return Operand(
            self.adapter, source, self.adapter.empty_rows(source, share_of_rows(shape[0], members))
        )

    def reducescatter(
        self,
        tensor: Tensor,
        name: str | None = None,
        compression: Compressor = NoneCompressor,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Tensor:
        """Reduce a tensor over all ranks and give each some of the result's rows.

        Parameters
        ----------
        tensor
            At least 1-d; same shape and dtype on all ranks.
        name : str, optional
            Which calls belong together.
        compression : Compressor
            Converts the tensor before it is sent and the result back.
        op : optional
            ``Average`` (default) or ``Sum``.
        process_set : ProcessSet
            The ranks that take part, by default all.
        prescale_factor, postscale_factor : float
            Multiplied to the tensor before, to the result after the reduction.

        Returns
        -------
        tensor
            This rank's rows. Rank 0 gets the first; where rows cannot be shared equally, the first ranks get
            one more.

        Raises
        ------
        ValueError, TypeError
            For an argument that this rank refuses.
        HorovodInternalError
            On all ranks, when dtypes, shapes, ``op`` or factors differ between them, or ``op`` is another.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.reducescatter(np.ones((2 * hora.size(), 3))).shape
        (2, 3)
        """
        if self.adapter.differentiable(tensor):
            return record_reducescatter(
                self, tensor, name, compression, op, process_set, prescale_factor, postscale_factor
            )
        compressed, ctx = self.compress(_REDUCESCATTER, tensor, name, compression, process_set)
        handle = self.reducescatter_async(
            compressed, name, op, process_set, prescale_factor, postscale_factor
        )
        result: Tensor = compression.decompress(synchronize(handle), ctx)
        return result

    def compress(
        self,
        collective: int,
        tensor: Tensor,
        name: str | None,
        compression: Compressor,
        process_set: ProcessSet,
    ) -> tuple[Tensor, Any]:
        """Return the tensor to send and what its decompression needs."""
        try:
            compressed: tuple[Tensor, Any] = compression.compress(tensor)
        except Exception as error:
            refuse(collective, name, error, process_set)
            raise
        return compressed
