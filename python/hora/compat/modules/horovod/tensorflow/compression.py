"""``horovod.tensorflow.compression``: converting tensors before they are sent."""

from __future__ import annotations

from hora.compression import Compressor
from hora.tensorflow import Compression

__all__ = ["Compression", "Compressor"]
