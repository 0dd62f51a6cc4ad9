"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from hora import _core
from hora._arguments import Sum
from hora.torch.collectives import allgather, allreduce_

__all__ = ["SyncBatchNorm"]

_ordinals = itertools.count()  # equal on all ranks, which make their layers in the same order


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Batch normalisation whose mean and variance are those of all ranks' batches together.

    In training, the ranks exchange each channel's sums once in the forward and once in the backward pass, so
    all ranks must run the layer. Their batches may differ in size and may be empty. In evaluation it is a
    plain ``BatchNorm``.

    Parameters
    ----------
    num_features : int
        The number of channels, the length of the input's dimension 1.
    eps : float
        Added to the variance.
    momentum : float or None
        Weight of the new batch in the running statistics; None makes them plain averages.
    affine : bool
        Whether each channel has a learnable factor and offset.
    track_running_stats : bool
        Whether running statistics are kept for evaluation.

    Examples
    --------
    >>> import torch
    >>> import hora.torch as hvd
    >>> hvd.init()
    >>> layer = hvd.SyncBatchNorm(3)
    >>> layer(torch.randn(5, 3, 4, 4)).shape
    torch.Size([5, 3, 4, 4])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._label = f"sync_batch_norm{next(_ordinals)}"

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm: the input must have at least 2 dimensions, not {input.dim()}")
        if input.shape[1] != self.num_features:
            raise ValueError(
                f"SyncBatchNorm: the input has {input.shape[1]} channels, expected {self.num_features}"
            )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise each channel.

        Raises
        ------
        ValueError
            If the input's shape does not fit or, on all ranks, if they have one value per channel only.
        HorovodInternalError
            If the ranks' inputs do not match.
        """
        self._check_input_dim(input)
        uses_batch = self.training or not self.track_running_stats
        if not uses_batch or _core.size() == 1:
            return super().forward(input)
        output, mean, variance, count = Normalise.apply(  # type: ignore[no-untyped-call]
            input, self.weight, self.bias, self.eps, self._label
        )
        if self.training and self.track_running_stats:
            self._track(mean, variance, int(count))
        return output  # type: ignore[no-any-return]

    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: int) -> None:
        """Update the running statistics; that of the variance is the unbiased one."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        weight = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight)
        self.running_var.lerp_((variance * (count / (count - 1))).to(self.running_var.dtype), weight)


class Normalise(torch.autograd.Function):
    """Normalisation of one rank's values with the statistics of all.

    With ``x`` the values of a channel on all ranks, ``m`` their mean, ``s`` the inverse of their standard
    deviation and ``g`` the gradients of the normalised values times the channel's factor, the gradient of
    ``x`` is ``s * (g - mean(g) - (x - m) * s**2 * mean(g * (x - m)))``: only the two means need the others.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        eps: float,
        label: str,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the output, and mean, variance and number of values per channel of all ranks."""
        values = input.to(accumulated(input.dtype))
        mean, variance, count = joined_statistics(values, label)
        if count < 2:
            raise ValueError("SyncBatchNorm: expected more than 1 value per channel in training")
        scale = torch.rsqrt(variance + eps)
        ctx.save_for_backward(input, weight, mean, scale)
        ctx.count = count
        ctx.label = label
        normalised = (values - per_channel(mean, values)) * per_channel(scale, values)
        output = affine(normalised, weight, bias).to(input.dtype)
        result = output, mean, variance, torch.tensor(count)
        ctx.mark_non_differentiable(*result[1:])
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Return the gradients of input, factor and offset; the last two are this rank's part only."""
        input, weight, mean, scale = ctx.saved_tensors
        gradient = gradients[0].to(mean.dtype)
        centred = input.to(mean.dtype) - per_channel(mean, input)
        dims = other_dims(input)
        own = torch.stack([gradient.sum(dims), (gradient * centred).sum(dims)])
        of_weight = own[1] * scale if ctx.needs_input_grad[1] else None
        of_bias = own[0].clone() if ctx.needs_input_grad[2] else None
        of_input = None
        if ctx.needs_input_grad[0]:
            means = allreduce_(own, name=f"{ctx.label}.backward", op=Sum) / ctx.count
            of_input = gradient - per_channel(means[0], input)
            of_input -= centred * per_channel(scale.square() * means[1], input)
            of_input *= per_channel(scale if weight is None else scale * weight.to(scale.dtype), input)
            of_input = of_input.to(input.dtype)
        if weight is not None:
            of_weight = None if of_weight is None else of_weight.to(weight.dtype)
            of_bias = None if of_bias is None else of_bias.to(weight.dtype)
        return of_input, of_weight, of_bias, None, None


def joined_statistics(values: torch.Tensor, label: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return mean and variance of each channel over all ranks, and the number of values of one.

    Each rank sends its count, means and sums of squared deviations, which are combined as by Chan et al.,
    "Algorithms for computing the sample variance" (1983): no large numbers of similar size are subtracted.
    """
    dims = other_dims(values)
    channels = values.shape[1]
    count = values.numel() // channels if channels else 0
    mean = values.sum(dims) / max(count, 1)
    deviations = (values - per_channel(mean, values)).square().sum(dims)
    own = torch.cat([values.new_tensor([count]), mean, deviations])[None]
    gathered = allgather(own, name=f"{label}.forward")
    counts, means, sums = torch.split(gathered, [1, channels, channels], dim=1)
    total = counts.sum()
    joined = (counts * means).sum(0) / total
    variance = (sums + counts * (means - joined).square()).sum(0) / total
    return joined, variance, int(total)


def accumulated(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype to calculate in: at least float32."""
    return torch.promote_types(dtype, torch.float32)


def other_dims(tensor: torch.Tensor) -> list[int]:
    """Return all dimensions but that of the channels."""
    return [dim for dim in range(tensor.dim()) if dim != 1]


def per_channel(vector: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a vector of one element per channel in a shape that broadcasts over ``like``."""
    return vector.view(1, -1, *[1] * (like.dim() - 2))


def affine(normalised: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    """Apply the channels' learnable factors and offsets, if there are any."""
    if weight is not None:
        normalised = normalised * per_channel(weight, normalised)
    return normalised if bias is None else normalised + per_channel(bias, normalised)
