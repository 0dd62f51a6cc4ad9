"""What compression needs to know of TensorFlow's tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

__all__ = ["TensorFlowCasts"]


class TensorFlowCasts:
    """Names and conversions of dtypes."""

    def dtype_name(self, tensor: Any) -> str:
        """Return TensorFlow's name of the dtype."""
        return str(tensor.dtype.name)

    def cast(self, tensor: Any, dtype: str) -> Any:
        """Convert to another dtype."""
        return tf.cast(tensor, tf.as_dtype(dtype))
