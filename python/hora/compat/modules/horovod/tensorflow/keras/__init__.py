"""``horovod.tensorflow.keras``: everything that ``hora.tensorflow.keras`` exports."""

from hora.tensorflow.keras import *  # noqa: F403
from hora.tensorflow.keras import __all__ as __all__
