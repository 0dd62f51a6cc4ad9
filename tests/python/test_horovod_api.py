"""The names and signatures of Horovod's PyTorch API, each here or explained as a difference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from signatures import signature

import hora.torch as hvd

PRE_POST = "prescale_factor=1.0, postscale_factor=1.0"
PS = "process_set=global_process_set"
ALLREDUCE = f"average=None, name=None, op=None, {PRE_POST}, {PS}"
COMPRESSED_ALLREDUCE = f"average=None, name=None, compression=Compression.none, op=None, {PRE_POST}, {PS}"
SCATTER = f"name=None, op=Average, {PS}, {PRE_POST}"
COMPRESSED_SCATTER = f"name=None, compression=Compression.none, op=Average, {PS}, {PRE_POST}"

#: Horovod 0.28, by name; None: a value or a class without arguments.
HOROVOD: dict[str, str | None] = {
    "init": "comm=None, process_sets=None",
    "start_timeline": "file_path, mark_cycles=False",
    **dict.fromkeys(("shutdown", "is_initialized", "stop_timeline", "size", "rank", "local_size"), ""),
    **dict.fromkeys(("local_rank", "cross_size", "cross_rank", "mpi_threads_supported", "mpi_enabled"), ""),
    **dict.fromkeys(("gloo_enabled", "mpi_built", "gloo_built", "ddl_built", "ccl_built", "cuda_built"), ""),
    **dict.fromkeys(("rocm_built", "nccl_built"), ""),
    **dict.fromkeys(("Average", "Sum", "Adasum", "Min", "Max", "Product"), None),
    **dict.fromkeys(("Compression", "HorovodInternalError", "global_process_set", "elastic"), None),
    "ProcessSet": "ranks_or_comm",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    **dict.fromkeys(("allreduce_async", "allreduce_async_", "allreduce_"), f"tensor, {ALLREDUCE}"),
    "allreduce": f"tensor, {COMPRESSED_ALLREDUCE}",
    **dict.fromkeys(
        ("grouped_allreduce_async", "grouped_allreduce_async_", "grouped_allreduce_"), f"tensors, {ALLREDUCE}"
    ),
    "grouped_allreduce": f"tensors, {COMPRESSED_ALLREDUCE}",
    "sparse_allreduce_async": f"tensor, name, op, {PS}",
    **dict.fromkeys(("allgather_async", "allgather"), f"tensor, name=None, {PS}"),
    **dict.fromkeys(("grouped_allgather_async", "grouped_allgather"), f"tensors, name=None, {PS}"),
    **dict.fromkeys(
        ("broadcast_async", "broadcast", "broadcast_async_", "broadcast_"),
        f"tensor, root_rank, name=None, {PS}",
    ),
    **dict.fromkeys(("alltoall_async", "alltoall"), f"tensor, splits=None, name=None, {PS}"),
    "reducescatter_async": f"tensor, {SCATTER}",
    "reducescatter": f"tensor, {COMPRESSED_SCATTER}",
    "grouped_reducescatter_async": f"tensors, {SCATTER}",
    "grouped_reducescatter": f"tensors, {COMPRESSED_SCATTER}",
    "join": "device=-1",
    "barrier": PS,
    "poll": "handle",
    "synchronize": "handle",
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": f"obj, root_rank=0, name=None, {PS}",
    "allgather_object": "obj, name=None",
    "DistributedOptimizer": "optimizer, named_parameters=None, compression=Compression.none, "
    "backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, "
    f"sparse_as_dense=False, {PS}",
    "SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
}

GUIDE = (Path(__file__).parents[2] / "docs" / "migrating-from-horovod.md").read_text()
DIFFERENCES = set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE))


@pytest.mark.parametrize("name", HOROVOD)
def test_name_exists(name: str) -> None:
    assert hasattr(hvd, name)
    assert name in hvd.__all__


@pytest.mark.parametrize("name", [name for name, expected in HOROVOD.items() if expected is not None])
def test_signature_is_horovods_or_the_difference_is_explained(name: str) -> None:
    assert (signature(hvd, name) != HOROVOD[name]) == (name in DIFFERENCES), signature(hvd, name)


@pytest.mark.parametrize("name", sorted(DIFFERENCES))
def test_a_difference_only_adds(name: str) -> None:
    expected = HOROVOD[name]
    assert expected is not None
    own = [part.partition("=")[0] for part in signature(hvd, name).split(", ")]
    assert own[: len(expected.split(", "))] == [part.partition("=")[0] for part in expected.split(", ")]


def test_the_numbers_of_the_reductions_are_horovods() -> None:
    names = ("Average", "Sum", "Adasum", "Min", "Max", "Product")
    assert [int(getattr(hvd, name)) for name in names] == [0, 1, 2, 3, 4, 5]
