"""``horovod.torch.mpi_ops``: the collectives and the functions about ranks, under their older address."""

from hora.torch import *  # noqa: F403
from hora.torch import __all__ as __all__
