"""What this installation can do, under the names that Horovod gives to its build options."""

from __future__ import annotations

from hora import _core
from hora._libraries import library_folders

__all__ = [
    "ccl_built",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rocm_built",
    "start_timeline",
    "stop_timeline",
]


def mpi_built() -> bool:
    """Return whether MPI can be used in this installation.

    Examples
    --------
    >>> import hora
    >>> isinstance(hora.mpi_built(), bool)
    True
    """
    return _core.mpi_probe()[0]


def mpi_enabled() -> bool:
    """Return whether this job runs over MPI; False for one process that no launcher started.

    Raises
    ------
    NotInitializedError
        Before ``init()``.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> isinstance(hora.mpi_enabled(), bool)
    True
    """
    return _core.transport() != "local"


def mpi_threads_supported() -> bool:
    """Return whether MPI grants ``MPI_THREAD_MULTIPLE``, so that scripts may call it beside hora.

    Raises
    ------
    ValueError
        If this job does not run over MPI, or before ``init()``.

    Examples
    --------
    >>> import hora
    >>> hora.init()
    >>> not hora.mpi_enabled() or hora.mpi_threads_supported()
    True
    """
    if not mpi_enabled():
        raise ValueError("mpi_threads_supported: this job does not run over MPI")
    return _core.mpi_allows_threads()


def nccl_built() -> int:
    """Return the version of the NCCL library that tensors on GPUs would use, 0 where there is none.

    It is found at run time: the copy that the program has loaded, that of the Python package
    ``nvidia-nccl-cu12`` or ``nvidia-nccl-cu13``, or the system's; ``HORA_NCCL_LIBRARY`` names another.

    Returns
    -------
    int
        Such as 22809 for 2.28.9.

    Examples
    --------
    >>> import hora
    >>> hora.nccl_built() == 0 or hora.nccl_built() >= 21903
    True
    """
    return _core.gpu_probe(library_folders())[2]


def gloo_built() -> bool:
    """Return False: hora does not use Gloo.

    Examples
    --------
    >>> import hora
    >>> hora.gloo_built()
    False
    """
    return False


def gloo_enabled() -> bool:
    """Return False: hora does not use Gloo.

    Examples
    --------
    >>> import hora
    >>> hora.gloo_enabled()
    False
    """
    return False


def cuda_built() -> bool:
    """Return whether the CUDA driver was found, without which there are no tensors on GPUs.

    Examples
    --------
    >>> import hora
    >>> isinstance(hora.cuda_built(), bool)
    True
    """
    return _core.gpu_probe()[0]


def rocm_built() -> bool:
    """Return False: this version works on tensors in host memory.

    Examples
    --------
    >>> import hora
    >>> hora.rocm_built()
    False
    """
    return False


def ddl_built() -> bool:
    """Return False: hora does not use IBM's DDL.

    Examples
    --------
    >>> import hora
    >>> hora.ddl_built()
    False
    """
    return False


def ccl_built() -> bool:
    """Return False: hora does not use Intel's oneCCL.

    Examples
    --------
    >>> import hora
    >>> hora.ccl_built()
    False
    """
    return False


def metrics() -> dict[str, int]:
    """Return what this rank has done since ``init()``.

    Returns
    -------
    dict
        ``tensors`` reduced, gathered, sent... in how many ``batches``, with how many ``bytes`` of input;
        ``plans`` in which the batches were agreed on; ``messages`` and ``message_bytes`` that this rank sent
        to agree; ``cache_hits``, calls that were announced by a small id instead of their description;
        ``errors``, calls that the ranks disagreed about.

    Raises
    ------
    NotInitializedError
        Before ``init()``.

    Examples
    --------
    >>> import hora, numpy as np
    >>> hora.init()
    >>> before = hora.metrics()["tensors"]
    >>> result = hora.allreduce(np.ones(3))
    >>> hora.metrics()["tensors"] - before
    1
    """
    return _core.counters()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Refuse: recording a timeline is not available yet.

    Examples
    --------
    >>> import hora
    >>> hora.start_timeline("timeline.json")
    Traceback (most recent call last):
    NotImplementedError: start_timeline is not available yet
    """
    raise NotImplementedError("start_timeline is not available yet")


def stop_timeline() -> None:
    """Refuse: recording a timeline is not available yet.

    Examples
    --------
    >>> import hora
    >>> hora.stop_timeline()
    Traceback (most recent call last):
    NotImplementedError: stop_timeline is not available yet
    """
    raise NotImplementedError("stop_timeline is not available yet")
