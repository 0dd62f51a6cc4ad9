"""Too little memory on a GPU."""

from __future__ import annotations

from harness.gpu_programs import LONG, assert_all_told, run

NO_ROOM = """
if rank == 1:
    FAULT
hora.init()
array = on_device(numpy.ones(1000), "float32")
with fails(3, WORDS, *(["rank 1 failed"] if rank != 1 else [])):
    hvd.allreduce(array, name="first")
with fails(1, WORDS):
    hvd.allreduce(array, name="second")
"""


def test_no_memory_for_a_communicator() -> None:
    words = "'ncclCommInitRankConfig', 'out of memory'"
    program = NO_ROOM.replace("FAULT", "nccl.fake_nccl_fail_inits(1)").replace("WORDS", words)
    assert_all_told(run(program, 3, **LONG), 6, within_s=6)


def test_no_memory_for_packing_is_an_error_of_the_call_alone() -> None:
    program = """
if rank == 1:
    nccl.fake_nccl_fail_allocations(1000)
hora.init()
array = on_device(numpy.ones(1000), "float32")
with fails(3, "GPU 1 has no", "bytes left", kind=ValueError if rank == 1 else HorovodInternalError):
    hvd.allreduce(array, name="first")
nccl.fake_nccl_fail_allocations(0)
assert (hvd.allreduce(array, name="second", op=hvd.Sum).numpy() == 2).all()
say("works")
"""
    ending = run(program)
    assert ending.code == 0
    assert ending.output.count("works") == 2


def test_less_memory_for_nccl_is_enough() -> None:
    program = """
if rank == 1:
    nccl.fake_nccl_fail_allocations(3)
hora.init()
arrays = [on_device(numpy.full(300_000, rank + n), "float32") for n in range(20)]
results = hvd.grouped_allreduce(arrays, op=hvd.Sum)
assert all((result.numpy() == 2 * n + 1).all() for n, result in enumerate(results))
say("works")
"""
    ending = run(program)
    assert ending.code == 0
    assert ending.output.count("works") == 2
