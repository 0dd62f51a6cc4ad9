"""``horovod.tensorflow.mpi_ops``: the collectives and functions about ranks, at their older address."""

from hora.tensorflow import *  # noqa: F403
from hora.tensorflow import __all__ as __all__
