"""Reducing sparse tensors by gathering their entries."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hora import _core
from hora._arguments import Average, Sum, check_name, set_id
from hora._calls import refuse
from hora._handle import synchronize_all
from hora._objects import step_name
from hora._ops import Collectives
from hora.errors import HorovodInternalError
from hora.process_sets import ProcessSet, global_process_set

__all__ = ["SparseCollectives"]

_ALLGATHER = _core.OPS["allgather"]


class SparseCollectives:
    """What exists for sparse tensors; the bound method is the public function."""

    def __init__(self, collectives: Collectives[torch.Tensor]) -> None:
        self._collectives = collectives

    def sparse_allreduce_async(
        self,
        tensor: torch.Tensor,
        name: str | None = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
    ) -> Callable[[], torch.Tensor]:
        """Begin to reduce a sparse tensor over all ranks.

        Indices that occur several times are merged before anything is sent. Each rank's entries are sent to
        all; they may differ in number and be none.

        Parameters
        ----------
        tensor : torch.Tensor
            Of layout ``torch.sparse_coo``; same shape and dtype on all ranks.
        name : str, optional
            Which calls belong together.
        op : optional
            ``Average`` (default) or ``Sum``. The average divides by the number of ranks that
            contributed, all of the process set unless some have joined.
        process_set : ProcessSet
            The ranks that take part, by default all.

        Returns
        -------
        callable
            Waits and returns the sparse result, coalesced; call it once.

        Raises
        ------
        ValueError, TypeError
            For an argument that this rank refuses.
        HorovodInternalError
            From the callable on all ranks, when dtypes or shapes differ between them, or a rank left.

        Examples
        --------
        >>> import torch
        >>> import hora.torch as hvd
        >>> hvd.init()
        >>> finish = hvd.sparse_allreduce_async(torch.eye(2).to_sparse(), name="eye")
        >>> finish().to_dense()
        tensor([[1., 0.],
                [0., 1.]])
        """
        names = [step_name(name, f"sparse_allreduce.{part}") for part in ("indices", "values")]
        try:
            check_name(name)
            ranks = _core.process_set_ranks(set_id(process_set))
            merged = merge(tensor, op)
        except Exception as error:
            for each in names:
                refuse(_ALLGATHER, each, error, process_set)
            raise
        # The first row tells the extents of the sparse dimensions, which allgather cannot compare.
        extents = torch.tensor([merged.shape[: merged.sparse_dim()]], dtype=torch.int64, device=merged.device)
        rows = torch.cat([extents, merged.indices().t()])
        of_indices = self._collectives.start_allgather(rows, names[0], process_set)
        of_values = self._collectives.start_allgather(merged.values(), names[1], process_set)

        def finish() -> torch.Tensor:
            gathered, values = synchronize_all([of_indices, of_values])
            parts = {
                rank: part
                for rank, part in zip(ranks, torch.split(gathered, of_indices.sizes), strict=True)
                if len(part) > 0  # a rank that has joined sends nothing
            }
            check_extents({rank: part[0].tolist() for rank, part in parts.items()}, name)
            indices = torch.cat([part[1:] for part in parts.values()]).t()
            return add_entries(indices, values, merged.shape, len(parts) if op == Average else 1)

        return finish


def add_entries(indices: torch.Tensor, values: torch.Tensor, shape: torch.Size, divisor: int) -> torch.Tensor:
    """Return the sum of entries, divided, by the rules of allreduce.

    Halves are divided and added in float32 and rounded once; integers are divided last, toward zero.
    """
    is_half = values.dtype in (torch.float16, torch.bfloat16)
    wide = values.float() if is_half else values
    if values.is_floating_point():
        wide = wide / divisor
    total = torch.sparse_coo_tensor(indices, wide, shape, check_invariants=False).coalesce()
    if divisor > 1 and not values.is_floating_point():
        quotients = torch.div(total.values(), divisor, rounding_mode="trunc")
        total = torch.sparse_coo_tensor(
            total.indices(), quotients, shape, check_invariants=False, is_coalesced=True
        )
    return total.to(values.dtype)


def merge(tensor: torch.Tensor, op: int) -> torch.Tensor:
    """Return the tensor with every index once."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.sparse_coo:
        raise ValueError(f"sparse_allreduce takes tensors of layout torch.sparse_coo, not {tensor.layout}")
    if op not in (Average, Sum):
        raise ValueError("sparse_allreduce: op must be Average or Sum")
    if op == Average and tensor.dtype is torch.bool:
        raise ValueError("sparse_allreduce: the Average of bool is not defined; use Sum")
    return tensor.detach().coalesce()


def check_extents(extents: dict[int, list[int]], name: str | None) -> None:
    """Raise, on all ranks alike, when the sparse dimensions differ between ranks."""
    first = min(extents)
    for rank, other in extents.items():
        if other != extents[first]:
            raise HorovodInternalError(
                f"sparse_allreduce{'' if name is None else f' {name!r}'}: rank {rank} sent a tensor of "
                f"extents {other}, rank {first} of {extents[first]}"
            )
