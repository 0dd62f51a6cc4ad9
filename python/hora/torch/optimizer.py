"""``DistributedOptimizer``: an optimizer whose gradients are averaged over all ranks.

The user's optimizer object stays what it is and only gets another class: a subclass of its own, made on the
spot. So ``isinstance``, learning rate schedulers made before or after, and options set anywhere go on
working.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Iterable
from typing import Any, TypeVar

import torch

from hora._arguments import Adasum, Average, Sum, choose_op, set_id
from hora.compression import Compressor, NoneCompressor
from hora.process_sets import ProcessSet, global_process_set
from hora.torch.adasum import AdasumOptimizer, UpdateRule
from hora.torch.gradients import GradientRule
from hora.torch.parameters import make_start_groups, parameter_names
from hora.torch.reducing import Closure, ReducingOptimizer, check_passes
from hora.torch.reduction import GradientReduction

__all__ = ["DistributedOptimizer", "ReducingOptimizer"]

Wrapped = TypeVar("Wrapped", bound=ReducingOptimizer)

_ordinals = itertools.count()  # equal on all ranks, which wrap their optimizers in the same order


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Compressor = NoneCompressor,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Iterable[Iterable[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> ReducingOptimizer:
    """Make an optimizer average its gradients over all ranks.

    The reduction of each gradient starts as soon as the backward pass has computed it and goes on beside
    the rest of the pass; ``step()`` waits for all. The result lies in ``p.grad``. A gradient that a rank
    does not have counts as zero. Parameters that need no gradient are left alone; once they do, or are
    added by ``add_param_group``, they take part. With one rank the optimizer behaves as before.

    From the second step on, small dense gradients lie in *buckets*: flat tensors in memory that the ranks of
    a host share, each reduced at once. There ``p.grad`` is the same tensor in every step. The next backward
    pass overwrites it, also after ``zero_grad()`` has set ``p.grad`` to None: clone what you want to keep.
    Another tensor that you assign to ``p.grad`` is copied there and replaced in the next round.

    Gradients must not be changed between ``backward()`` and ``step()`` without ``synchronize()``. For
    example, with a ``GradScaler`` and clipping::

        scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Changed in place and returned: schedulers and other references to it stay valid.
    named_parameters : iterable of (str, torch.Tensor), optional
        Usually ``model.named_parameters()``; names tell in messages which gradient is meant. Names of
        parameters that the optimizer does not have are ignored. Without names, parameters are numbered.
    compression : Compressor
        Converts gradients before they are sent and back, such as ``Compression.fp16``.
    backward_passes_per_step : int
        Call ``backward()`` so many times, then ``step()``: each gradient is reduced once, in the last pass.
        As in PyTorch, gradients of the passes add up; divide the loss by the number to get their mean. A
        step after fewer passes reduces what there is.
    op : optional
        ``Average`` (default), ``Sum`` or ``Adasum``. With ``Adasum`` every rank takes a step with its own
        gradients, and what the steps changed is combined by adaptive summation inside ``step()``;
        ``groups``, ``sparse_as_dense`` and ``backward_passes_per_step`` then change nothing, and
        ``skip_synchronize()`` and ``GradScaler`` are refused.
    gradient_predivide_factor : float
        Divides gradients by this factor before their sum is formed and by the rest of the number of ranks
        after it, which keeps half-precision sums in range. Needs ``op=Average``.
    groups : int or list of lists of torch.Tensor, optional
        Parameters whose gradients start their reduction together: when the last gradient of a group is
        computed. A number makes so many groups of about equal length; parameters in no list go alone.
        Generators such as ``layer.parameters()`` will do in place of lists.
    num_groups : int
        Deprecated spelling of ``groups``.
    sparse_as_dense : bool
        Reduce sparse gradients, such as those of ``Embedding(sparse=True)``, as dense ones.
    process_set : ProcessSet
        The ranks that train this model together; on others the optimizer behaves as before.

    Returns
    -------
    ReducingOptimizer
        The optimizer, with ``synchronize()``, ``skip_synchronize()``, ``no_sync()`` and
        ``set_backward_passes_per_step()`` besides.

    Raises
    ------
    ValueError
        If an argument is wrong, an element of ``named_parameters`` is not a pair, a name is given twice, a
        parameter has no name, the optimizer is wrapped already, or it is L-BFGS, whose number of
        evaluations differs between ranks.
    NotInitializedError
        Before ``init()``.

    Examples
    --------
    >>> import torch
    >>> import hora.torch as hvd
    >>> hvd.init()
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    """
    check_optimizer(optimizer)
    if choose_op(None, op) not in (Average, Sum, Adasum):
        raise ValueError("DistributedOptimizer: op must be Average, Sum or Adasum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("DistributedOptimizer: gradient_predivide_factor needs op=Average")
    set_id(process_set)
    rule = GradientRule(
        op=op,
        compression=compression,
        prescale=1.0 / gradient_predivide_factor,
        postscale=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
        process_set=process_set,
    )
    names = parameter_names(optimizer.param_groups, named_parameters)
    start_groups = make_start_groups(optimizer.param_groups, groups, num_groups)
    passes = check_passes(backward_passes_per_step)
    prefix = f"optimizer{next(_ordinals)}"
    if op == Adasum and process_set.included() and len(process_set.ranks) > 1:
        adasum = wrap(optimizer, AdasumOptimizer)
        adasum._rule = UpdateRule(prefix, names, compression, process_set)
        return adasum
    reduction = GradientReduction(prefix, names, rule, start_groups, passes)
    reduction.watch(optimizer.param_groups)
    wrapped = wrap(optimizer, ReducingOptimizer)
    wrapped._reduction = reduction
    weakref.finalize(optimizer, reduction.close).atexit = False
    return wrapped


def check_optimizer(optimizer: object) -> None:
    """Refuse what cannot be wrapped."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            f"DistributedOptimizer: expected a torch.optim.Optimizer, not {type(optimizer).__name__}"
        )
    if isinstance(optimizer, ReducingOptimizer):
        raise ValueError("DistributedOptimizer: this optimizer is wrapped already")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "DistributedOptimizer: torch.optim.LBFGS is not supported, it evaluates the loss a different "
            "number of times on each rank"
        )


def wrap(optimizer: torch.optim.Optimizer, added: type[Wrapped]) -> Wrapped:
    """Give the optimizer a subclass of its own class; a step that a scheduler replaced reduces too."""
    plain = type(optimizer)
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
    optimizer.__class__ = type(plain.__name__, (added, plain), names)
    assert isinstance(optimizer, added)
    optimizer._skip_synchronize = False
    patched = vars(optimizer).get("step")
    if patched is not None:
        this = weakref.ref(optimizer)

        @functools.wraps(patched)
        def step(closure: Closure | None = None) -> Any:
            wrapped = this()
            assert wrapped is not None
            return wrapped._reduced_step(patched, closure)

        optimizer.step = step  # type: ignore[method-assign]
    return optimizer
