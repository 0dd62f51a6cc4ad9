"""What a test sees of the other ranks, by way of the launcher and not of the library under test."""

from __future__ import annotations

import ctypes
import hashlib
import os
from typing import Any

from harness.channel import Channel


class Peers:
    """The ranks of this launch.

    Attributes
    ----------
    rank, size : int
        As the launcher set them, whatever the library says.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
        self.size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))

    def exchange(self, value: Any) -> list[Any]:
        """Return the values of all ranks in rank order; they must be fit for JSON."""
        return [message["value"] for message in self._channel.gather("exchange", value=value)]

    def wait(self) -> None:
        """Return when all ranks have come here."""
        self.exchange(None)

    def assert_same(self, value: Any) -> None:
        """Fail on all ranks unless all have an equal `value`."""
        values = self.exchange(value)
        assert all(other == values[0] for other in values), f"ranks differ: {values}"

    def assert_same_bits(self, *arrays: Any) -> None:
        """Fail on all ranks unless all hold the same bytes in `arrays` (NumPy arrays or CPU tensors)."""
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(bits(array))
        self.assert_same(digest.hexdigest())


def bits(array: Any) -> bytes:
    """Return the bytes of a NumPy array or a CPU tensor of any dtype, in row order."""
    if hasattr(array, "data_ptr"):
        tensor = array.detach().contiguous()
        return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    return bytes(array.tobytes())
