"""What ranks must agree on before tensors on GPUs can travel."""

from __future__ import annotations

import pytest
from harness.gpu_programs import LONG, assert_all_told, run

# What ranks must agree on before NCCL starts

DISAGREEMENT = """
SETTING
hora.init()
PLACE
array = on_device(numpy.ones(10), "float32")
with fails(3, WORDS):
    hvd.allreduce(array, name="first")
nccl.fake_nccl_counts.restype = counted(
    "made destroyed aborted operations launches groups mixed_groups allocations frees uses_in_progress"
)
assert nccl.fake_nccl_counts().made == 0
with fails(1, WORDS):
    hvd.allreduce(array, name="second")
"""
SAME_GPU = "'ranks 0 and 1 both use GPU 0000:', 'torch.cuda.set_device(hora.local_rank())'"


@pytest.mark.parametrize(
    ("setting", "place", "words"),
    [
        ("os.environ['HORA_FAKE_CUDA_SAME_PCI'] = '1'", "", SAME_GPU),
        ("", "os.environ['OMPI_COMM_WORLD_LOCAL_RANK'] = str(max(0, rank - 1))", SAME_GPU),
        (
            "os.environ['HORA_FAKE_NCCL_VERSION'] = '22809' if rank < 2 else '22703'",
            "",
            "'rank 0 has NCCL 2.28.9', 'rank 2 has NCCL 2.27.3', 'install the same'",
        ),
    ],
    ids=["same bus id", "same device", "versions"],
)
def test_disagreement_is_told_before_nccl_starts(setting: str, place: str, words: str) -> None:
    program = DISAGREEMENT.replace("SETTING", setting).replace("PLACE", place).replace("WORDS", words)
    assert_all_told(run(program, 3, **LONG), 6, within_s=6)


def test_library_missing_or_too_old() -> None:
    """Calls in host memory work as ever; one with a device array says what is missing, on all ranks."""
    program = """
NCCL, CUDA = os.environ["HORA_NCCL_LIBRARY"], os.environ["HORA_CUDA_LIBRARY"]
array = on_device([1.0, 2.0], "float32")

def check_host(name):
    arrays = [numpy.full(n, rank + n, "float32") for n in range(1, 21)]
    handles = [hora.allreduce_async(each, name=f"{name}.{n}", op=hora.Sum) for n, each in enumerate(arrays)]
    for n, handle in enumerate(handles, 1):
        assert hora.synchronize(handle).tolist() == [size * n + size * (size - 1) / 2] * n

def check(lacking, words, **environment):
    before = dict(os.environ)
    if rank in lacking:
        os.environ.update(environment)
    hora.init()
    check_host("before")
    for name in ("first", "again"):
        with fails(2, *words, kind=ValueError if rank in lacking else HorovodInternalError):
            hvd.allreduce(array, name=name)
        check_host(name)
    hora.shutdown()
    os.environ.clear()
    os.environ.update(before)

no_driver = ("the CUDA driver was not found", "/nowhere/libcuda.so.1", "HORA_CUDA_LIBRARY is set")
check([0, 1], no_driver, HORA_CUDA_LIBRARY="/nowhere/libcuda.so.1")
check([1], no_driver, HORA_CUDA_LIBRARY="/nowhere/libcuda.so.1")
check([0, 1], ("NCCL was not found", "/nowhere/libnccl.so.2"), HORA_NCCL_LIBRARY="/nowhere/libnccl.so.2")
too_old = ("NCCL 2.18.5 is too old", NCCL, "needs 2.19.3 or later")
check([0, 1], too_old, HORA_FAKE_NCCL_VERSION="21805")
check([0], too_old, HORA_FAKE_NCCL_VERSION="21805")
hora.init()
assert_works()
say("works")
"""
    ending = run(program)
    assert ending.code == 0
    assert ending.output.count("works") == 2
    assert_all_told(ending, 20, within_s=8)


# Host and device in one call


def test_host_and_device_in_one_grouped_call_are_refused() -> None:
    program = """
class HostArray(DeviceArray):
    is_cpu, is_cuda = True, False

    def __init__(self, values):
        self._owner = numpy.array(values, "float32")
        self._address = self._owner.ctypes.data
        self.shape, self.dtype, self.device = self._owner.shape, "float32", DeviceName(-1)

hora.init()
host, device = HostArray([1.0, 2.0]), on_device([1.0, 2.0], "float32")
calls = [hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allgather, hvd.grouped_reducescatter]
for call in calls:
    for group in ([device, host], [host, device]):
        with fails(1, "tensor 1 of 2 is", "in host memory", f"on GPU {rank}", kind=ValueError):
            call(group, name="mixed")
        assert_works()
    with fails(1, "in host memory", kind=ValueError if rank == 1 else HorovodInternalError):
        call([device, host if rank == 1 else device], name="mixed")
    assert_works()
"""
    ending = run(program)
    assert ending.code == 0
    assert_all_told(ending, 2 * 3 * 4, within_s=6)
