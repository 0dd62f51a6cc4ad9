"""The streams on which gradients on a GPU were computed."""

from __future__ import annotations

import torch

__all__ = ["GradientStreams"]


class GradientStreams:
    """Collects the streams on which some gradients come about, until work on all of them follows.

    A backward pass runs each operation on the stream of its forward pass. What is put on one stream behind
    all of them, a copy or a reduction, has to wait for the others.
    """

    def __init__(self) -> None:
        self._streams: set[torch.cuda.Stream] = set()

    def note(self, gradient: torch.Tensor) -> None:
        """Note the stream of this thread, on which the gradient was computed last."""
        if gradient.is_cuda:
            self._streams.add(torch.cuda.current_stream(gradient.device))

    def join(self) -> None:
        """Let what this thread does next on its stream wait for all that were noted, and forget them."""
        if not self._streams:
            return
        for stream in self._streams:
            current = torch.cuda.current_stream(stream.device)
            if stream != current:
                current.wait_stream(stream)
        self._streams.clear()
