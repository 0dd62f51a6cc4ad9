"""``horovod.torch.functions``: giving all ranks the root's parameters, optimizer state and objects."""

from __future__ import annotations

import torch

from hora.process_sets import ProcessSet, global_process_set
from hora.torch import allgather_object, broadcast_object, broadcast_parameters
from hora.torch import broadcast_optimizer_state as broadcast_state

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Do what ``hora.torch.broadcast_optimizer_state`` does, and leave gradients where Horovod leaves some.

    There an optimizer without state takes a step with gradients of zero, and scripts read these before their
    first backward pass. Here it gets them without the step. Gradients that will be sparse, those of
    ``SparseAdam`` and of the sparse embeddings of ``model``, stay missing.
    """
    is_new = not optimizer.state
    broadcast_state(optimizer, root_rank, model, process_set)
    if not is_new or isinstance(optimizer, torch.optim.SparseAdam):
        return
    sparse = sparse_parameters(model)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None and id(parameter) not in sparse:
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)


def sparse_parameters(model: torch.nn.Module | None) -> set[int]:
    """Return the ids of the parameters of a model whose gradients are sparse."""
    modules = [] if model is None else list(model.modules())
    embeddings = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return {id(each.weight) for each in modules if isinstance(each, embeddings) and each.sparse}
