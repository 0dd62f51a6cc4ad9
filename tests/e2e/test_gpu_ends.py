"""How programs end that have used a GPU."""

from __future__ import annotations

import pytest
from harness.gpu_programs import assert_all_told, run

# Ends

ENDS = """
import multiprocessing

hora.init()
slow = 1
arrays = [on_device(numpy.full(1000, rank), "float32") for _ in range(5)]
assert_works()
outputs = [hvd.allgather(arrays[0], name="kept") for _ in range(3)]

def begin():
    nccl.fake_nccl_slow(slow, 20_000)
    return [hvd.allreduce_async_(array, name=f"in flight.{n}", op=hvd.Sum) for n, array in enumerate(arrays)]

"""


def test_forked_child_ends_cleanly_after_the_device_was_used() -> None:
    program = """
for pending in (False, True):
    handles = begin() if pending else []
    driver().synchronize()
    child = os.fork()
    if child == 0:
        DeviceArray.__del__ = keep_memory
        del arrays[:], outputs[:]
        handles = None
        gc.collect()
        try:
            hora.barrier()
        except HorovodInternalError as error:
            assert "fork" in str(error)
            sys.exit(7)
        sys.exit(1)
    deadline = time.monotonic() + 5
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGABRT)
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 7, ended
    for handle in handles:
        hvd.synchronize(handle)
    arrays[0].numpy()
    assert_works()
say("works")
"""
    ending = run(ENDS + program)
    assert ending.code == 0
    assert ending.output.count("works") == 2


def test_shutdown_with_pending_handles_and_a_new_session() -> None:
    program = """
for round in range(3):
    handles = begin()
    lonely = hvd.allreduce_async(arrays[0], name=f"lonely.{rank}")
    hora.barrier()
    start = time.monotonic()
    hora.shutdown()
    assert time.monotonic() - start < 3
    told = 0
    for handle in [*handles, lonely]:
        try:
            hvd.synchronize(handle)
        except HorovodInternalError as error:
            assert "shut down" in str(error) or "left the job" in str(error), error
            told += 1
    assert told >= 1
    with fails(1, "init"):
        hvd.allreduce(arrays[0])
    assert numpy.isfinite(arrays[0].numpy()).all()
    arrays[:] = [on_device(numpy.full(1000, rank), "float32") for _ in range(5)]
    hora.init()
    assert_works()
    outputs[round].numpy()  # of an earlier session
say("works")
"""
    ending = run(ENDS + program)
    assert ending.code == 0
    assert ending.output.count("works") == 2
    assert_all_told(ending, 6, within_s=10)


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "hora.shutdown()", "raise ValueError(5)"])
def test_exit_with_work_in_flight(end: str) -> None:
    program = f"""
driver().copy(arrays[1].data_ptr(), arrays[0].data_ptr(), arrays[0].nbytes)
kept = begin()
dropped = hvd.allgather_async(arrays[0], name="dropped")
del dropped
say("in flight")
sys.stdout.flush()
{end}
"""
    ending = run(ENDS + program, HORA_FAKE_CUDA_DELAY_US="2000")
    fails = end.startswith("raise")  # then a rank that is not as far may learn of it before
    assert ending.output.count("in flight") in ((1, 2) if fails else (2,)), ending.output
    assert "signal" not in ending.output, ending.output
    assert (ending.code == 0) != fails
    assert ending.seconds < 8
