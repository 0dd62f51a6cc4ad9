"""The class that makes an optimizer reduce its gradients before each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hora.torch.parameters import ParameterGroups
from hora.torch.reduction import GradientReduction

__all__ = ["Closure", "ReducingOptimizer", "check_passes", "names_of"]

Closure = Callable[[], Any]


class ReducingOptimizer(torch.optim.Optimizer):
    """What :func:`DistributedOptimizer` adds to an optimizer's class."""

    _reduction: GradientReduction
    _skip_synchronize: bool
    _scaled: bool = False

    @property
    def _parameter_names(self) -> dict[torch.Tensor, str]:
        """Read by scripts written for Horovod; the same names on all ranks."""
        return names_of(self.param_groups, self._reduction._names)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Read by ``GradScaler.step`` before it looks at the gradients, which must be reduced by then."""
        self.synchronize()
        self._scaled = True
        return bool(vars(self).get("_step_supports_amp_scaling", False))

    def synchronize(self) -> None:
        """Wait until every gradient is reduced; one that this rank does not have counts as zero.

        Call it to work on the reduced gradients, for example to clip them, then :meth:`step` inside
        :meth:`skip_synchronize`. A second call before :meth:`step` does nothing.

        Raises
        ------
        HorovodInternalError
            If the reduction of a gradient failed.
        RuntimeError
            If a gradient was changed, such as by clipping, between the backward pass and this call.
        """
        self._reduction.synchronize(self.param_groups)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let backward passes add to the local gradients only.

        The next pass outside reduces the sums. These passes do not count for ``backward_passes_per_step``.

        Examples
        --------
        >>> import torch
        >>> import hora.torch as hvd
        >>> hvd.init()
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        >>> with optimizer.no_sync():
        ...     model(torch.ones(1, 2)).sum().backward()
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> optimizer.step()
        """
        with self._reduction.paused():
            yield

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Change after how many backward passes gradients are reduced, from the next one on.

        Examples
        --------
        >>> import torch
        >>> import hora.torch as hvd
        >>> hvd.init()
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        >>> optimizer.set_backward_passes_per_step(2)
        """
        self._reduction.discard()
        self._reduction.passes = check_passes(passes)

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
            if reduction.synchronized and not self._scaled:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() after "
                    "optimizer.synchronize(): the gradients are not reduced again; call it inside "
                    "`with optimizer.skip_synchronize():`",
                    stacklevel=3,
                )
            self.synchronize()
        result = local_step() if closure is None else local_step(self._reduced_closure(closure))
        reduction.start_over()
        self._scaled = False
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


def names_of(groups: ParameterGroups, given: dict[torch.Tensor, str]) -> dict[torch.Tensor, str]:
    """Return the name of each parameter as in messages: the given one, else its number."""
    parameters = [parameter for group in groups for parameter in group["params"]]
    return {parameter: given.get(parameter, f"#{number}") for number, parameter in enumerate(parameters)}


def check_passes(passes: int) -> int:
    """Refuse a number of backward passes that is no positive integer."""
    if not isinstance(passes, int) or passes <= 0:
        raise ValueError(f"DistributedOptimizer: backward_passes_per_step must be at least 1, not {passes!r}")
    return passes
