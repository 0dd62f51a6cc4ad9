"""``DistributedOptimizer`` with ``op=Adasum``: the ranks' updates are combined instead of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from hora._arguments import Adasum
from hora._handle import Handle, synchronize_all
from hora.compression import Compressor
from hora.process_sets import ProcessSet
from hora.torch.collectives import allreduce_async_
from hora.torch.reducing import Closure, ReducingOptimizer, names_of

__all__ = ["AdasumOptimizer", "UpdateRule"]


@dataclass(frozen=True)
class UpdateRule:
    """How the updates of an optimizer are combined."""

    prefix: str
    names: dict[torch.Tensor, str]
    compression: Compressor
    process_set: ProcessSet

    def combine(self, starts: dict[torch.Tensor, torch.Tensor]) -> None:
        """Replace each parameter's own update since ``starts`` by that of all ranks."""
        handles: list[Handle[torch.Tensor]] = []
        contexts: list[Any] = []
        for number, (parameter, start) in enumerate(starts.items()):
            update, context = self.compression.compress(parameter.detach() - start)
            contexts.append(context)
            name = f"{self.prefix}/{self.names.get(parameter, f'#{number}')}"
            handles.append(allreduce_async_(update, name=name, op=Adasum, process_set=self.process_set))
        updates = synchronize_all(handles)
        with torch.no_grad():
            for (parameter, start), update, context in zip(starts.items(), updates, contexts, strict=True):
                parameter.copy_(start + self.compression.decompress(update, context))


class AdasumOptimizer(ReducingOptimizer):
    """What ``DistributedOptimizer`` adds to an optimizer's class for ``op=Adasum``.

    Every rank takes the optimizer's step with its own gradients; what the step changed is combined over the
    ranks, so that the parameters are equal again.
    """

    _rule: UpdateRule

    @property
    def _parameter_names(self) -> dict[torch.Tensor, str]:
        """Read by scripts written for Horovod; the same names on all ranks."""
        return names_of(self.param_groups, self._rule.names)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Read by ``GradScaler.step``."""
        raise RuntimeError(
            "DistributedOptimizer: op=Adasum does not work with GradScaler, which lets each rank skip steps "
            "by itself; use op=Average"
        )

    def synchronize(self) -> None:
        """Do nothing: gradients stay those of this rank."""

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do nothing: only :meth:`step` talks to other ranks."""
        yield

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Do nothing: gradients add up until :meth:`step`."""

    def skip_synchronize(self) -> NoReturn:
        """Refuse: there is no step without the other ranks.

        Raises
        ------
        AssertionError
            Always.
        """
        raise AssertionError("skip_synchronize() is not available with op=Adasum")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        super(ReducingOptimizer, self).zero_grad(set_to_none)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load options and state."""
        super(ReducingOptimizer, self).load_state_dict(state_dict)

    def _reduced_step(self, local_step: Callable[..., Any], closure: Closure | None) -> Any:
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        starts = {each: each.detach().clone() for each in parameters if each.requires_grad}
        result = local_step() if closure is None else local_step(closure)
        self._rule.combine(starts)
        return result
