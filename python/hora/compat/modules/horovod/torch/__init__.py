"""``horovod.torch``: everything that ``hora.torch`` exports."""

from hora.torch import *  # noqa: F403
from hora.torch import __all__ as __all__

from .functions import broadcast_optimizer_state as broadcast_optimizer_state
