"""``horovod.keras.callbacks``."""

from hora.keras.callbacks import *  # noqa: F403
from hora.keras.callbacks import __all__ as __all__
