"""``hora.keras.callbacks`` at the address that it has for TensorFlow."""

from hora.keras.callbacks import *  # noqa: F403
from hora.keras.callbacks import __all__ as __all__
