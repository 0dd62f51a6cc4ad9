"""Starting, ending, and what is refused outside."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import hora
import hora.torch as hvd

ARRAY = np.ones(2)
TENSOR = torch.ones(2)

NEEDS_INIT: dict[str, Callable[[], Any]] = {
    "rank": hora.rank,
    "size": hora.size,
    "local_rank": hora.local_rank,
    "local_size": hora.local_size,
    "cross_rank": hora.cross_rank,
    "cross_size": hora.cross_size,
    "is_homogeneous": hora.is_homogeneous,
    "global set": hora.global_process_set.size,
    "barrier": hora.barrier,
    "allreduce": lambda: hora.allreduce(ARRAY),
    "allreduce_": lambda: hora.allreduce_(ARRAY),
    "allreduce_async": lambda: hora.allreduce_async(ARRAY),
    "allreduce_async_": lambda: hora.allreduce_async_(ARRAY),
    "allgather": lambda: hora.allgather(ARRAY),
    "allgather_async": lambda: hora.allgather_async(ARRAY),
    "broadcast": lambda: hora.broadcast(ARRAY, 0),
    "broadcast_": lambda: hora.broadcast_(ARRAY, 0),
    "broadcast_async": lambda: hora.broadcast_async(ARRAY, 0),
    "broadcast_async_": lambda: hora.broadcast_async_(ARRAY, 0),
    "alltoall": lambda: hora.alltoall(ARRAY),
    "alltoall_async": lambda: hora.alltoall_async(ARRAY, [2]),
    "reducescatter": lambda: hora.reducescatter(ARRAY),
    "reducescatter_async": lambda: hora.reducescatter_async(ARRAY),
    "grouped_allreduce_": lambda: hora.grouped_allreduce_([ARRAY]),
    "grouped_allreduce_async": lambda: hora.grouped_allreduce_async([ARRAY]),
    "grouped_allreduce_async_": lambda: hora.grouped_allreduce_async_([ARRAY]),
    "grouped_allgather_async": lambda: hora.grouped_allgather_async([ARRAY]),
    "grouped_reducescatter_async": lambda: hora.grouped_reducescatter_async([ARRAY]),
    "grouped_allreduce": lambda: hora.grouped_allreduce([ARRAY], name="x"),
    "grouped_allgather": lambda: hora.grouped_allgather([ARRAY]),
    "grouped_reducescatter": lambda: hora.grouped_reducescatter([ARRAY]),
    "sparse_allreduce_async": lambda: hvd.sparse_allreduce_async(torch.eye(2).to_sparse()),
    "join": hora.join,
    "add_process_set": lambda: hora.add_process_set([0]),
    "collective of a set": lambda: hora.allreduce(ARRAY, process_set=hora.ProcessSet([0])),
    "remove_process_set": lambda: hora.remove_process_set(hora.ProcessSet([0])),
    "stop_requested": hora.stop_requested,
    "metrics": hora.metrics,
    "mpi_enabled": hora.mpi_enabled,
    "broadcast_object": lambda: hora.broadcast_object(1),
    "allgather_object": lambda: hora.allgather_object(1),
    "torch allreduce": lambda: hvd.allreduce(TENSOR),
    "torch allgather": lambda: hvd.allgather(TENSOR),
    "torch broadcast": lambda: hvd.broadcast(TENSOR, 0),
    "broadcast_parameters": lambda: hvd.broadcast_parameters({"a": TENSOR}, 0),
    "broadcast_optimizer_state": lambda: hvd.broadcast_optimizer_state(torch.optim.SGD([TENSOR]), 0),
    "DistributedOptimizer": lambda: hvd.DistributedOptimizer(torch.optim.SGD([TENSOR])),
}


# Those that take the handle of a call, and those that say what is there.
NEEDS_NONE = {
    *("init", "shutdown", "is_initialized", "poll", "synchronize", "start_timeline", "stop_timeline"),
    *("mpi_built", "gloo_built", "nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built"),
    *("gloo_enabled", "mpi_threads_supported"),
}


def test_every_function_is_tried_without_init() -> None:
    functions = {name for name in hora.__all__ if inspect.isfunction(getattr(hora, name))}
    assert functions - NEEDS_NONE <= set(NEEDS_INIT)


@pytest.mark.parametrize("call", NEEDS_INIT)
def test_call_without_init_says_what_to_do(call: str) -> None:
    hora.shutdown()
    with pytest.raises(hora.NotInitializedError, match=r"init\(\)") as raised:
        NEEDS_INIT[call]()
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, hora.HorovodInternalError)


def test_one_process_is_the_whole_job() -> None:
    assert (hora.rank(), hora.size()) == (0, 1)
    assert (hora.local_rank(), hora.local_size()) == (0, 1)
    assert (hora.cross_rank(), hora.cross_size()) == (0, 1)
    assert hora.is_homogeneous()


def test_init_twice_and_front_ends_share_it() -> None:
    hora.init()
    assert hvd.is_initialized()
    assert hvd.size() == 1


def test_init_and_shutdown_can_be_repeated() -> None:
    for _ in range(5):
        hora.shutdown()
        hora.shutdown()
        assert not hora.is_initialized()
        hora.init()
        assert hora.allreduce(np.ones(1)).tolist() == [1.0]


def test_a_job_of_one_process_has_nothing_to_choose_from() -> None:
    hora.shutdown()
    hora.init(comm=[0])
    assert hora.size() == 1
    hora.shutdown()
    for wrong in ([1], [0, 1], [], "0", 5):
        with pytest.raises(ValueError, match="comm"):
            hora.init(comm=wrong)
    hora.init()


def test_what_comes_later_exists_and_says_so() -> None:
    for module in (hora, hvd):
        for call in (
            lambda module=module: module.start_timeline("file"),
            module.stop_timeline,
            lambda module=module: module.elastic.run,
            lambda module=module: module.elastic.TorchState(model=None),
        ):
            with pytest.raises(NotImplementedError, match="not available yet"):
                call()


def test_what_is_built() -> None:
    assert type(hora.nccl_built()) is int
    assert type(hora.cuda_built()) is bool
    for answer in ("gloo_built", "gloo_enabled", "rocm_built", "ddl_built", "ccl_built"):
        assert getattr(hvd, answer)() is False
    assert not hvd.mpi_enabled()
    with pytest.raises(ValueError, match="MPI"):
        hvd.mpi_threads_supported()
    assert set(hora.metrics()) >= {"tensors", "batches", "bytes", "messages"}


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


def test_uncaught_exception_prints_its_traceback_through_the_users_hook() -> None:
    result = run(
        "import sys, hora\n"
        "default = sys.excepthook\n"
        "sys.excepthook = lambda *error: (print('hook of the user'), default(*error))\n"
        "hora.init()\n"
        "raise KeyError('lost')\n"
    )
    assert result.returncode == 1
    assert "hook of the user" in result.stdout
    assert "KeyError: 'lost'" in result.stderr


def test_forked_child_is_refused_and_exits_cleanly() -> None:
    result = run(
        "import os, sys, hora, numpy\n"
        "hora.init()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        hora.allreduce(numpy.ones(1))\n"
        "    except hora.HorovodInternalError as error:\n"
        "        assert 'fork' in str(error), error\n"
        "        sys.exit(7)\n"
        "_, status = os.wait()\n"
        "assert os.waitstatus_to_exitcode(status) == 7, status\n"
        "assert hora.allreduce(numpy.ones(1)) == 1\n"
    )
    assert result.returncode == 0, result.stderr


def test_torch_missing_says_how_to_install_it() -> None:
    result = run(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import hora\n"
        "try:\n"
        "    import hora.torch\n"
        "except ImportError as error:\n"
        "    assert 'pip install torch==2.13.0' in str(error), error\n"
        "else:\n"
        "    raise AssertionError('imported')\n"
    )
    assert result.returncode == 0, result.stderr
