"""The collectives, each once, over the :class:`~hora._adapter.Adapter` of a framework.

Rules that hold for all of them:

- Tensors have dtype bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32 or float64 and any
  shape, 0-d and empty ones included. A tensor that is not contiguous is copied first.
- ``name`` says which calls of different ranks belong together; a name may be used again once its operation
  was synchronized or polled as done. Calls without a name belong together by their order.
- What this rank must refuse raises ``ValueError`` or ``TypeError`` here and fails on the other ranks too.
  What the ranks disagree about raises ``HorovodInternalError`` on all of them and leaves their tensors as
  they were.
- Only the global process set exists so far.
- Gradients, for frameworks that record them: see :mod:`hora._gradients`.
"""

from __future__ import annotations

import operator
from typing import Generic

from hora import _core
from hora._adapter import Adapter, Tensor
from hora._arguments import (
    Sum,
    check_name_and_set,
    choose_op,
)
from hora._gradients import record_allgather, record_allreduce, record_broadcast
from hora._handle import GatherHandle, Handle, ViewHandle, synchronize
from hora.compression import Compressor, NoneCompressor
from hora.process_sets import GlobalProcessSet, global_process_set

__all__ = ["Collectives", "barrier", "refuse"]

_ALLREDUCE = _core.OPS["allreduce"]
_ALLGATHER = _core.OPS["allgather"]
_BROADCAST = _core.OPS["broadcast"]
_BARRIER = _core.OPS["barrier"]
_UINT8 = _core.DTYPES["uint8"]
_OP_NAMES = {number: name for name, number in _core.OPS.items()}


def refuse(op: int, name: object, error: Exception) -> None:
    """Tell the other ranks that this one cannot take part in a call; name the call in the error's text."""
    label = f" {name!r}" if isinstance(name, str) else ""
    _core.refuse(op, name if isinstance(name, str) else None, str(error))
    if type(error) in (TypeError, ValueError):
        error.args = (f"{_OP_NAMES[op]}{label}: {error}",)


def barrier(process_set: GlobalProcessSet = global_process_set) -> None:
    """Wait until all ranks have called it.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> hora.barrier()
    """
    try:
        check_name_and_set(None, process_set)
    except Exception as error:
        refuse(_BARRIER, None, error)
        raise
    _core.submit(_BARRIER, None, 0, (), _UINT8, 0, Sum, 0, 1.0, 1.0, None).wait()


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
        process_set: GlobalProcessSet = global_process_set,
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
        return self._allreduce(
            tensor, False, average, name, op, prescale_factor, postscale_factor, process_set
        )

    def allreduce_async_(
        self,
        tensor: Tensor,
        average: bool | None = None,
        name: str | None = None,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: GlobalProcessSet = global_process_set,
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
        return self._allreduce(
            tensor, True, average, name, op, prescale_factor, postscale_factor, process_set
        )

    def _allreduce(
        self,
        tensor: Tensor,
        in_place: bool,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: GlobalProcessSet,
    ) -> Handle[Tensor]:
        adapter = self.adapter
        try:
            check_name_and_set(name, process_set)
            reduction = choose_op(average, op)
            prescale, postscale = float(prescale_factor), float(postscale_factor)
            source = adapter.contiguous(tensor, in_place)
            address, shape, dtype = adapter.to_ref(source)
            output = source if in_place else adapter.empty_like(source)
        except Exception as error:
            refuse(_ALLREDUCE, name, error)
            raise
        target = address if in_place else adapter.address(output)
        owners = (source, output)
        core = _core.submit(
            _ALLREDUCE, name, address, shape, dtype, target, reduction, 0, prescale, postscale, owners
        )
        if in_place and source is not tensor:
            return ViewHandle(core, source, tensor, adapter)
        return Handle(core, output)

    def allreduce(
        self,
        tensor: Tensor,
        average: bool | None = None,
        name: str | None = None,
        compression: Compressor = NoneCompressor,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: GlobalProcessSet = global_process_set,
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
        process_set
            Only ``global_process_set`` yet.

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
        try:
            compressed, ctx = compression.compress(tensor)
        except Exception as error:
            refuse(_ALLREDUCE, name, error)
            raise
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
        process_set: GlobalProcessSet = global_process_set,
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
        process_set: GlobalProcessSet = global_process_set,
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
        self, tensor: Tensor, name: str | None, process_set: GlobalProcessSet
    ) -> GatherHandle[Tensor]:
        """Like :meth:`allgather_async`, for those who also want the number of rows from each rank."""
        adapter = self.adapter
        try:
            check_name_and_set(name, process_set)
            source = adapter.contiguous(tensor)
            address, shape, dtype = adapter.to_ref(source)
        except Exception as error:
            refuse(_ALLGATHER, name, error)
            raise
        core = _core.submit(_ALLGATHER, name, address, shape, dtype, 0, Sum, 0, 1.0, 1.0, source)
        return GatherHandle(core, source, adapter)

    def allgather(
        self,
        tensor: Tensor,
        name: str | None = None,
        process_set: GlobalProcessSet = global_process_set,
    ) -> Tensor:
        """Concatenate the ranks' tensors along their first dimension, in the order of ranks.

        Parameters
        ----------
        tensor
            At least 1-d. The first dimension may differ between ranks and may be 0; dtype and the other
            dimensions are the same on all.
        name : str, optional
            Which calls belong together.
        process_set
            Only ``global_process_set`` yet.

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
        process_set: GlobalProcessSet = global_process_set,
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
        return self._broadcast(tensor, False, root_rank, name, process_set)

    def broadcast_async_(
        self,
        tensor: Tensor,
        root_rank: int,
        name: str | None = None,
        process_set: GlobalProcessSet = global_process_set,
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
        return self._broadcast(tensor, True, root_rank, name, process_set)

    def _broadcast(
        self,
        tensor: Tensor,
        in_place: bool,
        root_rank: int,
        name: str | None,
        process_set: GlobalProcessSet,
    ) -> Handle[Tensor]:
        adapter = self.adapter
        try:
            check_name_and_set(name, process_set)
            root = operator.index(root_rank)
            source = adapter.contiguous(tensor, in_place)
            address, shape, dtype = adapter.to_ref(source)
            output = source if in_place else adapter.empty_like(source)
        except Exception as error:
            refuse(_BROADCAST, name, error)
            raise
        target = address if in_place else adapter.address(output)
        core = _core.submit(
            _BROADCAST, name, address, shape, dtype, target, Sum, root, 1.0, 1.0, (source, output)
        )
        if in_place and source is not tensor:
            return ViewHandle(core, source, tensor, adapter)
        return Handle(core, output)

    def broadcast(
        self,
        tensor: Tensor,
        root_rank: int,
        name: str | None = None,
        process_set: GlobalProcessSet = global_process_set,
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
        process_set
            Only ``global_process_set`` yet.

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
        process_set: GlobalProcessSet = global_process_set,
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
