"""``horovod.tensorflow``: everything that ``hora.tensorflow`` exports."""

from hora.tensorflow import *  # noqa: F403
from hora.tensorflow import __all__ as __all__
