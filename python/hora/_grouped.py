"""Grouped collectives: one call, one handle and one list of results for several tensors.

- The tensors may differ in dtype and shape; results come in their order.
- All arguments are checked before anything begins: when one tensor is refused, the whole call is.
- All ranks group the same tensors in the same order; they become ready together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic

from hora import _core
from hora._adapter import Tensor
from hora._arguments import Average
from hora._calls import begin_in_place, refuse, start_group, tensors_of
from hora._gradients import own_rows, record_group, require_gradient, scatter_scale
from hora._handle import GroupHandle, Handle, synchronize
from hora._ops import Collectives
from hora.compression import Compressor, NoneCompressor
from hora.process_sets import ProcessSet, global_process_set

__all__ = ["GroupedCollectives"]

_ALLREDUCE = _core.OPS["allreduce"]
_ALLGATHER = _core.OPS["allgather"]
_REDUCESCATTER = _core.OPS["reducescatter"]


class GroupedCollectives(Generic[Tensor]):
    """The grouped collectives of one framework; its bound methods are the public functions."""

    def __init__(self, collectives: Collectives[Tensor]) -> None:
        self._single = collectives
        self._adapter = collectives.adapter

    def grouped_allreduce_async(
        self,
        tensors: Iterable[Tensor],
        average: bool | None = None,
        name: str | None = None,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[list[Tensor]]:
        """Begin to reduce several tensors into new ones; see :func:`grouped_allreduce`.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> handle = hora.grouped_allreduce_async([np.ones(1), np.zeros(2)])
        >>> hora.synchronize(handle)
        [array([1.]), array([0., 0.])]
        """
        group = tensors_of(tensors)
        return self._allreduce(
            group, False, average, name, op, prescale_factor, postscale_factor, process_set
        )

    def grouped_allreduce_async_(
        self,
        tensors: Iterable[Tensor],
        average: bool | None = None,
        name: str | None = None,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[list[Tensor]]:
        """Begin to reduce several tensors in place; see :func:`grouped_allreduce`.

        Do not touch the tensors until :func:`synchronize`, which returns them. No gradient is recorded.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.synchronize(hora.grouped_allreduce_async_([np.ones(1), np.zeros(2)]))
        [array([1.]), array([0., 0.])]
        """
        group = tensors_of(tensors)
        if average is None:
            reduction = Average if op is None else op
            core = begin_in_place(
                _ALLREDUCE, name, group, reduction, 0, prescale_factor, postscale_factor, process_set
            )
            if core is not None:
                return Handle(core, group)
        return self._allreduce(group, True, average, name, op, prescale_factor, postscale_factor, process_set)

    def _allreduce(
        self,
        group: list[Tensor],
        in_place: bool,
        average: bool | None,
        name: str | None,
        op: int | None,
        prescale_factor: float,
        postscale_factor: float,
        process_set: ProcessSet,
    ) -> GroupHandle[Tensor]:
        return start_group(
            _ALLREDUCE,
            name,
            process_set,
            lambda members: self._single.prepare_allreduce(
                group, in_place, average, op, prescale_factor, postscale_factor
            ),
        )

    def grouped_allreduce(
        self,
        tensors: Iterable[Tensor],
        average: bool | None = None,
        name: str | None = None,
        compression: Compressor = NoneCompressor,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> list[Tensor]:
        """Reduce several tensors over all ranks into new ones.

        Parameters
        ----------
        tensors : iterable of tensors
            As many, and in the same order, on all ranks; dtypes and shapes may differ within the list.
        average, compression, op, prescale_factor, postscale_factor, process_set
            As for :func:`allreduce`, for every tensor.
        name : str, optional
            Which calls belong together.

        Returns
        -------
        list
            The results in the order of the tensors.

        Raises
        ------
        ValueError, TypeError
            For an argument that this rank refuses; then no tensor is reduced.
        HorovodInternalError
            On all ranks, when they disagree about one of the tensors, or a rank left.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.grouped_allreduce([np.ones(1), np.zeros(2)])
        [array([1.]), array([0., 0.])]
        """
        group = tensors_of(tensors)

        def forward(values: list[Tensor]) -> list[Tensor]:
            compressed, contexts = self._compress(_ALLREDUCE, values, name, compression, process_set)
            handle = self.grouped_allreduce_async(
                compressed, average, name, op, prescale_factor, postscale_factor, process_set
            )
            return decompress(compression, synchronize(handle), contexts)

        def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
            require_gradient(average, op)
            return self.grouped_allreduce(
                gradients, average, None, compression, op, prescale_factor, postscale_factor, process_set
            )

        if any(self._adapter.differentiable(tensor) for tensor in group):
            return record_group(self._adapter, group, forward, backward)
        return forward(group)

    def grouped_allreduce_(
        self,
        tensors: Iterable[Tensor],
        average: bool | None = None,
        name: str | None = None,
        op: int | None = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> list[Tensor]:
        """Reduce several tensors over all ranks in place and return them; see :func:`grouped_allreduce`.

        No gradient is recorded.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> hora.grouped_allreduce_([np.ones(1), np.zeros(2)])
        [array([1.]), array([0., 0.])]
        """
        return synchronize(
            self.grouped_allreduce_async_(
                tensors, average, name, op, prescale_factor, postscale_factor, process_set
            )
        )

    def grouped_allgather_async(
        self,
        tensors: Iterable[Tensor],
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[list[Tensor]]:
        """Begin to concatenate the ranks' tensors, several at once; see :func:`grouped_allgather`.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> handle = hora.grouped_allgather_async([np.zeros((2, 3)), np.zeros(1)])
        >>> [result.shape[0] // hora.size() for result in hora.synchronize(handle)]
        [2, 1]
        """
        return self._allgather(tensors_of(tensors), name, process_set)

    def _allgather(
        self, group: list[Tensor], name: str | None, process_set: ProcessSet
    ) -> GroupHandle[Tensor]:
        return start_group(
            _ALLGATHER, name, process_set, lambda members: self._single.prepare_allgather(group)
        )

    def grouped_allgather(
        self,
        tensors: Iterable[Tensor],
        name: str | None = None,
        process_set: ProcessSet = global_process_set,
    ) -> list[Tensor]:
        """Concatenate the ranks' tensors along their first dimension, several tensors at once.

        Parameters
        ----------
        tensors : iterable of tensors
            As many, and in the same order, on all ranks; each as for :func:`allgather`.
        name : str, optional
            Which calls belong together.
        process_set : ProcessSet
            The ranks that take part, by default all.

        Returns
        -------
        list
            The results in the order of the tensors.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> first, second = hora.grouped_allgather([np.zeros((2, 3)), np.zeros(1)])
        >>> first.shape == (2 * hora.size(), 3)
        True
        """
        group = tensors_of(tensors)
        if not any(self._adapter.differentiable(tensor) for tensor in group):
            return synchronize(self._allgather(group, name, process_set))
        sizes: list[list[int]] = []

        def forward(values: list[Tensor]) -> list[Tensor]:
            handle = self._allgather(values, name, process_set)
            results = synchronize(handle)
            sizes.extend(operand.sizes for operand in handle.operands)
            return results

        def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
            averaged = self.grouped_allreduce(gradients, op=Average, process_set=process_set)
            return [
                own_rows(self._adapter, each, sizes[number], process_set)
                for number, each in zip(numbers, averaged, strict=True)
            ]

        return record_group(self._adapter, group, forward, backward)

    def grouped_reducescatter_async(
        self,
        tensors: Iterable[Tensor],
        name: str | None = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Handle[list[Tensor]]:
        """Begin to reduce several tensors and share out their rows; see :func:`grouped_reducescatter`.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> handle = hora.grouped_reducescatter_async([np.ones((hora.size(), 3)), np.ones(hora.size())])
        >>> [result.shape for result in hora.synchronize(handle)]
        [(1, 3), (1,)]
        """
        group = tensors_of(tensors)
        return start_group(
            _REDUCESCATTER,
            name,
            process_set,
            lambda members: self._single.prepare_reducescatter(
                group, op, prescale_factor, postscale_factor, members
            ),
        )

    def grouped_reducescatter(
        self,
        tensors: Iterable[Tensor],
        name: str | None = None,
        compression: Compressor = NoneCompressor,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> list[Tensor]:
        """Reduce several tensors over all ranks and give each rank some rows of every result.

        Parameters
        ----------
        tensors : iterable of tensors
            As many, and in the same order, on all ranks; each as for :func:`reducescatter`.
        name : str, optional
            Which calls belong together.
        compression, op, process_set, prescale_factor, postscale_factor
            As for :func:`reducescatter`, for every tensor.

        Returns
        -------
        list
            This rank's rows of every tensor, in the order of the tensors.

        Examples
        --------
        >>> import hora, numpy as np
        >>> hora.init()
        >>> results = hora.grouped_reducescatter([np.ones((hora.size(), 3)), np.ones(hora.size())])
        >>> [result.shape for result in results]
        [(1, 3), (1,)]
        """
        group = tensors_of(tensors)

        def forward(values: list[Tensor]) -> list[Tensor]:
            compressed, contexts = self._compress(_REDUCESCATTER, values, name, compression, process_set)
            handle = self.grouped_reducescatter_async(
                compressed, name, op, process_set, prescale_factor, postscale_factor
            )
            return decompress(compression, synchronize(handle), contexts)

        def backward(gradients: list[Tensor], numbers: list[int]) -> list[Tensor]:
            factor = float(prescale_factor) * float(postscale_factor)
            return self.grouped_allgather(
                [scatter_scale(self._adapter, each, op, factor, process_set) for each in gradients],
                process_set=process_set,
            )

        if any(self._adapter.differentiable(tensor) for tensor in group):
            return record_group(self._adapter, group, forward, backward)
        return forward(group)

    def _compress(
        self,
        op: int,
        tensors: list[Tensor],
        name: str | None,
        compression: Compressor,
        process_set: ProcessSet,
    ) -> tuple[list[Tensor], list[Any]]:
        """Return the tensors to send and what their decompression needs."""
        if compression is NoneCompressor:
            return tensors, []
        try:
            pairs = [compression.compress(tensor) for tensor in tensors]
        except Exception as error:
            refuse(op, name, error, process_set)
            raise
        return [compressed for compressed, _ in pairs], [context for _, context in pairs]


def decompress(compression: Compressor, results: list[Tensor], contexts: list[Any]) -> list[Tensor]:
    """Undo :meth:`GroupedCollectives._compress`."""
    if compression is NoneCompressor:
        return results
    return [compression.decompress(*pair) for pair in zip(results, contexts, strict=True)]
