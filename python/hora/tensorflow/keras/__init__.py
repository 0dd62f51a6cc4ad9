"""``hora.keras`` at the address that it has for TensorFlow."""

from hora.keras import *  # noqa: F403
from hora.keras import __all__ as __all__
