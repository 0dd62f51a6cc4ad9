"""The libraries that are compared: each offers the same blocking collectives over the same memory."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contender import Array, Contender, Memory, only_float32, without_result
from launch import WITHOUT_CMA
from referee import Referee
from shared_page import load_bounds


def shared_array(count: int, dtype: str) -> Array:
    """Return an array in memory that the ranks share; halves as the integers that stand for them here."""
    from hora.numpy import shared_empty

    return shared_empty(count, "int16" if dtype in ("float16", "bfloat16") else dtype)


class HorovodApi(Contender):
    """hora on PyTorch tensors, and Horovod, whose interface it shares."""

    def __init__(self, module: str, allocate: Callable[[int, str], Array] | None = None) -> None:
        import torch

        self._torch, self._hvd = torch, importlib.import_module(module)
        self._hvd.init()
        self._allocate = allocate

    def allocate(self, count: int, dtype: str) -> Array | None:
        return self._allocate(count, dtype) if self._allocate else None

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        hvd, name = self._hvd, f"{memory.op}.{memory.dtype}.{memory.work.nbytes}"
        tensor = self._torch.from_numpy(memory.work).view(getattr(self._torch, memory.dtype))
        calls: dict[str, Callable[[], Any]] = {
            "allreduce": lambda: hvd.allreduce_(tensor, name=name, op=hvd.Sum),
            "broadcast": lambda: hvd.broadcast_(tensor, root_rank=0, name=name),
            "allgather": lambda: hvd.allgather(tensor, name=name),
            "alltoall": lambda: hvd.alltoall(tensor, name=name),
            "reducescatter": lambda: hvd.reducescatter(tensor, name=name, op=hvd.Sum),
        }
        return calls[memory.op]

    def prepare_many(self, tensors: Sequence[Array], grouped: bool) -> Callable[[], Any]:
        hvd = self._hvd
        group = [self._torch.from_numpy(tensor) for tensor in tensors]
        names = [f"many.{group[0].numel()}.{number}" for number in range(len(group))]
        if grouped:
            return lambda: hvd.synchronize(hvd.grouped_allreduce_async_(group, name=names[-1], op=hvd.Sum))

        def submit_each() -> None:
            pairs = zip(group, names, strict=True)
            for handle in [hvd.allreduce_async_(tensor, name=name, op=hvd.Sum) for tensor, name in pairs]:
                hvd.synchronize(handle)

        return submit_each

    def close(self) -> None:
        self._hvd.shutdown()


class HoraNumpy(Contender):
    """hora on NumPy arrays."""

    def __init__(self) -> None:
        import hora

        hora.init()
        self._hora = hora

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        hora, work, name = self._hora, memory.work, f"numpy.{memory.op}.{memory.work.nbytes}"
        only_float32(memory)
        calls: dict[str, Callable[[], Any]] = {
            "allreduce": lambda: hora.allreduce_(work, name=name, op=hora.Sum),
            "broadcast": lambda: hora.broadcast_(work, root_rank=0, name=name),
            "allgather": lambda: hora.allgather(work, name=name),
            "alltoall": lambda: hora.alltoall(work, name=name),
            "reducescatter": lambda: hora.reducescatter(work, name=name, op=hora.Sum),
        }
        return calls[memory.op]

    def close(self) -> None:
        self._hora.shutdown()


class Mpi(Contender):
    """MPI's own collectives through mpi4py."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi = MPI

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        only_float32(memory)
        mpi, world = self._mpi, self._mpi.COMM_WORLD
        work, output = [memory.work, mpi.FLOAT], [memory.output, mpi.FLOAT]
        calls: dict[str, Callable[[], Any]] = {
            "allreduce": lambda: world.Allreduce(mpi.IN_PLACE, work, mpi.SUM),
            "broadcast": lambda: world.Bcast(work, 0),
            "allgather": lambda: world.Allgather(work, output),
            "alltoall": lambda: world.Alltoall(work, output),
            "reducescatter": lambda: world.Reduce_scatter_block(work, output, mpi.SUM),
        }
        return calls[memory.op]

    def prepare_many(self, tensors: Sequence[Array], grouped: bool) -> Callable[[], Any]:
        if grouped:
            raise NotImplementedError("MPI has no grouped calls")
        mpi, world = self._mpi, self._mpi.COMM_WORLD
        buffers = [[tensor, mpi.FLOAT] for tensor in tensors]

        def reduce_each() -> None:
            for buffer in buffers:
                world.Allreduce(mpi.IN_PLACE, buffer, mpi.SUM)

        return reduce_each


class MpiWithoutCma(Mpi):
    """MPI where processes do not read each other's memory, which is faster for some sizes."""

    def __init__(self) -> None:
        if all(os.environ.get(name) != value for name, value in WITHOUT_CMA.items()):
            raise ImportError("the environment must switch CMA off, for the whole process")
        super().__init__()


class Gloo(Contender):
    """Gloo through torch.distributed, over the loopback interface."""

    def __init__(self, referee: Referee) -> None:
        import torch
        import torch.distributed

        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self._folder = referee.from_root(tempfile.mkdtemp(prefix="hora-bench-") if referee.rank == 0 else "")
        self._torch, self._distributed, self._referee = torch, torch.distributed, referee
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{self._folder}/store", rank=referee.rank, world_size=referee.size
        )

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        distributed, dtype = self._distributed, getattr(self._torch, memory.dtype)
        work = self._torch.from_numpy(memory.work).view(dtype)
        output = self._torch.from_numpy(memory.output).view(dtype)
        calls: dict[str, Callable[[], Any]] = {
            "allreduce": lambda: distributed.all_reduce(work),
            "broadcast": lambda: distributed.broadcast(work, 0),
            "allgather": lambda: distributed.all_gather_single(output, work),
            "alltoall": lambda: distributed.all_to_all_single(output, work),
            "reducescatter": lambda: distributed.reduce_scatter_single(output, work),
        }
        return without_result(calls[memory.op])

    def prepare_many(self, tensors: Sequence[Array], grouped: bool) -> Callable[[], Any]:
        if grouped:
            raise NotImplementedError("Gloo has no grouped calls")
        group = [self._torch.from_numpy(tensor) for tensor in tensors]
        start = self._distributed.all_reduce
        return lambda: [work.wait() for work in [start(tensor, async_op=True) for tensor in group]]

    def close(self) -> None:
        self._distributed.destroy_process_group()
        self._referee.barrier()  # a rank waits for minutes if the store is gone before it ends
        shutil.rmtree(self._folder, ignore_errors=True)


class DeepSpeed(Gloo):
    """DeepSpeed's allreduce through shared memory, which it builds when first used; in place, sums only."""

    def __init__(self, referee: Referee) -> None:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        os.environ["LOCAL_SIZE"] = str(referee.size)  # it must know that all ranks are on one host
        comm = importlib.import_module("deepspeed.comm")
        super().__init__(referee)
        comm.init_distributed("gloo", auto_mpi_discovery=False, rank=referee.rank, world_size=referee.size)
        if not hasattr(self._torch.ops.deepspeed, "inference_all_reduce_"):
            raise ImportError("DeepSpeed could not build its operation")  # it would fall back to Gloo

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        if memory.op != "allreduce":
            raise NotImplementedError(f"DeepSpeed has no {memory.op} of its own")
        allreduce = self._torch.ops.deepspeed.inference_all_reduce_
        tensor = self._torch.from_numpy(memory.work).view(getattr(self._torch, memory.dtype))
        return without_result(lambda: allreduce(tensor))

    def prepare_many(self, tensors: Sequence[Array], grouped: bool) -> Callable[[], Any]:
        raise NotImplementedError("DeepSpeed's allreduce blocks")


class MemoryBound(Contender):
    """No library: every rank reads and writes its memory once, which no allreduce in place can do without."""

    checked = False

    def __init__(self) -> None:
        bounds = load_bounds()
        if bounds is None:
            raise ImportError("build it with: scripts/setup.sh bench")
        self._read_and_write = bounds.hora_bench_read_and_write

    def prepare(self, memory: Memory) -> Callable[[], Any]:
        address, count = memory.work.ctypes.data, memory.work.nbytes // 4
        return lambda: self._read_and_write(address, count)


CONTENDERS: dict[str, Callable[[Referee], Contender]] = {
    "hora": lambda referee: HorovodApi("hora.torch"),
    "hora-own": lambda referee: HorovodApi("hora.torch", allocate=shared_array),
    "hora-numpy": lambda referee: HoraNumpy(),
    "mpi": lambda referee: Mpi(),
    "mpi-no-cma": lambda referee: MpiWithoutCma(),
    "gloo": Gloo,
    "horovod": lambda referee: HorovodApi("horovod.torch"),
    "deepspeed": DeepSpeed,
    "memory": lambda referee: MemoryBound(),
}


def join(
    names: Sequence[str], referee: Referee, offered: Mapping[str, Callable[[Referee], Contender]] = CONTENDERS
) -> dict[str, Contender]:
    """Return the contenders that are installed; name those that are not."""
    found: dict[str, Contender] = {}
    for name in names:
        try:
            found[name] = offered[name](referee)
        except ImportError as error:
            if referee.rank == 0:
                print(f"# {name} is left out: {error}", flush=True)
    return found
