"""The names and signatures of Horovod's API for TensorFlow 2 and for Keras, without elastic."""

from __future__ import annotations

import subprocess
import sys

import pytest
from signatures import signature

hvd = pytest.importorskip("hora.tensorflow", exc_type=ImportError)

NAME = "name=None"
SCOPE = "ignore_name_scope=False"
AVERAGE = "average=None"
PRE_POST = "prescale_factor=1.0, postscale_factor=1.0"
PS = "process_set=global_process_set"
DEVICES = "device_dense='', device_sparse=''"
COMPRESSION = "compression=Compression.none"
TAPE = (
    f"gradtape, {DEVICES}, {COMPRESSION}, sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, "
    f"num_groups=0, groups=None, {PS}"
)

HOROVOD: dict[str, str | None] = {
    "init": "comm=None, process_sets=None",
    **dict.fromkeys(("shutdown", "is_initialized", "size", "rank", "local_size", "local_rank"), ""),
    **dict.fromkeys(("Average", "Sum", "Adasum", "Min", "Max", "Product", "Compression"), None),
    "allreduce": f"tensor, {AVERAGE}, {DEVICES}, {COMPRESSION}, op=None, {PRE_POST}, {NAME}, {PS}, {SCOPE}",
    "grouped_allreduce": f"tensors, {AVERAGE}, {DEVICES}, {COMPRESSION}, op=None, {PRE_POST}, {PS}, "
    f"{SCOPE}, {NAME}",
    "allgather": f"tensor, {NAME}, {SCOPE}, {PS}",
    "grouped_allgather": f"tensors, {NAME}, {SCOPE}, {PS}",
    "broadcast": f"tensor, root_rank, {NAME}, {SCOPE}, {PS}",
    "broadcast_": f"variables, root_rank, {NAME}, {PS}",
    "alltoall": f"tensor, splits=None, {NAME}, {SCOPE}, {PS}",
    "reducescatter": f"tensor, device_dense='', {COMPRESSION}, op=Average, {NAME}, {PS}, {SCOPE}, {PRE_POST}",
    "grouped_reducescatter": f"tensors, device_dense='', {COMPRESSION}, op=Average, {PS}, {PRE_POST}",
    "join": "",
    **dict.fromkeys(("size_op", "process_set_included_op"), f"process_set_id=0, {NAME}"),
    **dict.fromkeys(("rank_op", "local_rank_op", "local_size_op"), NAME),
    "broadcast_variables": f"variables, root_rank, {PS}, inplace=False",
    "broadcast_object": f"obj, root_rank=0, session=None, {NAME}, {PS}",
    "broadcast_object_fn": f"root_rank=0, session=None, {NAME}, {PS}",
    "allgather_object": f"obj, session=None, {NAME}, {PS}",
    "broadcast_global_variables": "root_rank",
    "BroadcastGlobalVariablesHook": None,
    "DistributedOptimizer": f"optimizer, {NAME}, use_locking=False, {DEVICES}, {COMPRESSION}, "
    "sparse_as_dense=False, backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, "
    f"average_aggregated_gradients=False, num_groups=0, groups=None, {PS}, scale_local_gradients=True",
    "DistributedGradientTape": f"{TAPE}, scale_local_gradients=True",
    "PartialDistributedGradientTape": f"{TAPE}, local_layers=None, scale_local_gradients=True",
    "SyncBatchNormalization": "fused=False, kwargs",
    "ProcessSet": "ranks_or_comm",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
}

#: With an argument at the end besides.
LONGER = {"grouped_reducescatter"}


@pytest.mark.parametrize("name", HOROVOD)
def test_name_and_signature_are_horovods(name: str) -> None:
    assert name in hvd.__all__
    expected = HOROVOD[name]
    if expected is None:
        return
    own = signature(hvd, name)
    assert own == expected or (name in LONGER and own.startswith(f"{expected}, "))


def in_python(script: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_kernels_say_when_there_is_no_tensorflow() -> None:
    told = in_python(
        "import ctypes, hora, pathlib\n"
        "path = pathlib.Path(hora.__file__).with_name('libhora_tensorflow.so')\n"
        "problem = ctypes.CDLL(str(path)).hora_tensorflow_problem\n"
        "problem.restype = ctypes.c_char_p\n"
        "print(problem().decode())\n"
    )
    assert "TensorFlow's libraries were not found" in told


@pytest.mark.timeout(120)
def test_scripts_for_horovod_find_it() -> None:
    script = (
        "import hora.compat; hora.compat.install()\n"
        "import horovod.tensorflow as hvd, horovod.tensorflow.mpi_ops, hora.tensorflow\n"
        "from horovod.tensorflow.compression import Compression\n"
        "from horovod.tensorflow.functions import broadcast_variables\n"
        "assert set(hora.tensorflow.__all__) <= set(vars(hvd))\n"
        "hvd.init(); print('size', int(hvd.size_op()))\n"
    )
    assert "size 1" in in_python(script)
