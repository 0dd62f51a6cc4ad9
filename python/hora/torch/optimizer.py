"""``DistributedOptimizer``: an optimizer whose gradients are averaged over all ranks.

The user's optimizer object stays what it is and only gets another class: a subclass of its own, made on the
spot. So ``isinstance``, learning rate schedulers made before or after, and options set anywhere go on
working.
"""

from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hora import _core
from hora._arguments import Average, Sum, check_name_and_set, choose_op
from hora.compression import Compressor, NoneCompressor
from hora.process_sets import GlobalProcessSet, global_process_set
from hora.torch.reduction import GradientReduction, parameter_names

__all__ = ["DistributedOptimizer", "ReducingOptimizer"]

Closure = Callable[[], Any]

_ordinals = itertools.count()  # equal on all ranks, which wrap their optimizers in the same order


class ReducingOptimizer(torch.optim.Optimizer):
    """What :func:`DistributedOptimizer` adds to an optimizer's class."""

    _reduction: GradientReduction
    _skip_synchronize: bool

    def synchronize(self) -> None:
        """Wait until every gradient is reduced; one that this rank does not have counts as zero.

        Call it to work on the reduced gradients, for example to clip them, then :meth:`step` inside
        :meth:`skip_synchronize`. A second call before :meth:`step` does nothing.
        """
        self._reduction.synchronize(self.param_groups)

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Let :meth:`step` run without :meth:`synchronize`, which was called before.

        Examples
        --------
        >>> import torch
        >>> import hora.torch as hvd
        >>> hvd.init()
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> optimizer.synchronize()
        >>> norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        >>> with optimizer.skip_synchronize():
        ...     optimizer.step()
        """
        self._skip_synchronize = True
        try:
            yield
        finally:
            self._skip_synchronize = False

    def step(self, closure: Closure | None = None) -> Any:
        """Wait for the reduced gradients and take the optimizer's step.

        With a closure the gradients are reduced each time after the optimizer has called it.

        Raises
        ------
        HorovodInternalError
            If the reduction of a gradient failed; no step is taken.
        """
        return self._reduced_step(super().step, closure)

    step.hooked = True  # type: ignore[attr-defined]  # tells PyTorch that the step below calls the step hooks

    def _reduced_step(self, local_step: Callable[..., Any], closure: Closure | None) -> Any:
        reduction = self._reduction
        if self._skip_synchronize:
            reduction.require_synchronized()
        elif closure is None:
            if reduction.synchronized:
                warnings.warn(
                    "optimizer.step() after optimizer.synchronize(): the gradients are not reduced again; "
                    "call it inside `with optimizer.skip_synchronize():`",
                    stacklevel=3,
                )
            self.synchronize()
        result = local_step() if closure is None else local_step(self._reduced_closure(closure))
        reduction.start_over()
        return result

    def _reduced_closure(self, closure: Closure) -> Closure:
        if self._skip_synchronize:
            return closure

        def reduced() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        return reduced

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; reductions that go on are waited for and their results dropped."""
        self._reduction.discard()
        super().zero_grad(set_to_none)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load options and state; reductions that go on are waited for and their results dropped."""
        self._reduction.discard()
        super().load_state_dict(state_dict)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copy and pickle as the plain optimizer: the hooks belong to this model and this process."""
        return object.__new__, (type(self).__bases__[1],), self.__getstate__()


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Compressor = NoneCompressor,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: None = None,
    sparse_as_dense: bool = False,
    process_set: GlobalProcessSet = global_process_set,
) -> ReducingOptimizer:
    """Make an optimizer average its gradients over all ranks.

    The reduction of each gradient starts as soon as the backward pass has computed it and goes on beside
    the rest of the pass; ``step()`` waits for all. The result lies in ``p.grad``. A gradient that a rank
    does not have counts as zero. Parameters that need no gradient are left alone; once they do, or are
    added by ``add_param_group``, they take part. With one rank the optimizer behaves as before.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Changed in place and returned: schedulers and other references to it stay valid.
    named_parameters : iterable of (str, torch.Tensor), optional
        Usually ``model.named_parameters()``; names tell in messages which gradient is meant. Names of
        parameters that the optimizer does not have are ignored. Without names, parameters are numbered.
    compression : Compressor
        Converts gradients before they are sent and back, such as ``Compression.fp16``.
    op : optional
        ``Average`` (default) or ``Sum``.
    backward_passes_per_step, gradient_predivide_factor, num_groups, groups, sparse_as_dense, process_set
        Part of Horovod's signature; values other than the default are not available yet.

    Returns
    -------
    ReducingOptimizer
        The optimizer, with ``synchronize()`` and ``skip_synchronize()`` besides.

    Raises
    ------
    ValueError
        If an argument is not available, an element of ``named_parameters`` is not a pair, a name is given
        twice, a parameter has no name, the optimizer is wrapped already, or it is L-BFGS, whose number of
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
    if choose_op(None, op) not in (Average, Sum):
        raise ValueError("DistributedOptimizer: op must be Average or Sum")
    if backward_passes_per_step <= 0:
        raise ValueError("DistributedOptimizer: backward_passes_per_step must be at least 1")
    not_available = {
        "backward_passes_per_step": backward_passes_per_step != 1,
        "gradient_predivide_factor": gradient_predivide_factor != 1.0,
        "num_groups": num_groups != 0,
        "groups": groups is not None,
        "sparse_as_dense": sparse_as_dense,
    }
    for argument, given in not_available.items():
        if given:
            raise ValueError(
                f"DistributedOptimizer: {argument} is not available yet, leave it at its default"
            )
    check_name_and_set(None, process_set)
    active = _core.size() > 1
    names = parameter_names(optimizer.param_groups, named_parameters)
    reduction = GradientReduction(f"optimizer{next(_ordinals)}", names, compression, op, active)
    reduction.watch(optimizer.param_groups)
    return wrap(optimizer, reduction)


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


def wrap(optimizer: torch.optim.Optimizer, reduction: GradientReduction) -> ReducingOptimizer:
    """Give the optimizer a subclass of its own class; a step that a scheduler replaced reduces too."""
    plain = type(optimizer)
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
    optimizer.__class__ = type(plain.__name__, (ReducingOptimizer, plain), names)
    assert isinstance(optimizer, ReducingOptimizer)
    optimizer._reduction = reduction
    optimizer._skip_synchronize = False
    weakref.finalize(optimizer, reduction.close).atexit = False
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
