"""Hora under the name of Horovod, see ``hora.compat``; ``import horovod.torch as hvd``."""

__all__ = ["__version__"]

#: The version of Horovod whose PyTorch API is provided.
__version__ = "0.28.1"
