"""``horovod.keras``: everything that ``hora.keras`` exports."""

from hora.keras import *  # noqa: F403
from hora.keras import __all__ as __all__
