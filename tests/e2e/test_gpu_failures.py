"""What is told, and how processes end, when a GPU, NCCL or a rank that uses them fails."""

from __future__ import annotations

import re

import pytest
from harness.gpu_programs import LONG, SHORT, assert_all_told, run
from harness.mpirun import RECOVERY

# A rank is lost in the middle of a collective

IN_THE_MIDDLE = """
if rank == LOST:
    del os.environ["HORA_WAIT_ON_HOST"]
hora.init()
array = on_device(numpy.ones(1000), "float32")
hvd.allreduce(array, op=hvd.Sum)
processes = hora.allgather_object(os.getpid())
watcher = '''
while kill -0 {survivors[0]} 2>/dev/null || kill -0 {survivors[1]} 2>/dev/null; do sleep 0.05; done
echo survivors have ended
kill -9 {lost}
'''
if rank == LOST:
    nccl.fake_nccl_slow(rank, 30_000_000)
    survivors = [pid for pid in processes if pid != os.getpid()]
    subprocess.Popen(["sh", "-c", watcher.format(survivors=survivors, lost=os.getpid())])
hora.barrier()
handle = hvd.allreduce_async_(array, name="lost", op=hvd.Sum)
if rank == LOST:
    hvd.synchronize(handle)
    say("launched and lost")
    os.kill(os.getpid(), signal.SIGNAL)
    time.sleep(60)
with fails(3, FIRST):
    hvd.synchronize(handle)
    hvd.allreduce(array, name="next")
array.numpy()  # the device is free again
with fails(1, NEXT):
    hora.barrier()
"""


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize(("lost", "on_host"), [(0, "false"), (1, "true")])
def test_rank_lost_in_the_middle(number: str, lost: int, on_host: str) -> None:
    program = IN_THE_MIDDLE.replace("LOST", str(lost)).replace("SIGNAL", number)
    # Of a process that is gone the others know at once, of one that has stopped when the deadline has passed.
    cause = f"rank {lost} failed: it ended without notice" if number == "SIGKILL" else "allreduce 'lost'"
    first = (cause, "allreduce 'lost'") if on_host == "true" else (cause,)
    program = program.replace("FIRST", ", ".join(map(repr, first))).replace("NEXT", repr(cause))
    ending = run(program, 3, HORA_WAIT_ON_HOST=on_host, **RECOVERY, **SHORT)
    assert_all_told(ending, 4, within_s=8)
    assert ending.output.index("launched and lost") < ending.output.index("survivors have ended")


# NCCL or the device fails on one rank

FAULT = """
DeviceArray.__del__ = keep_memory
hora.init()
array = on_device(numpy.ones(1000), "float32")
hvd.allreduce(array, op=hvd.Sum)
handle = hvd.allreduce_async_(array, name="struck", op=hvd.Sum)
with fails(WITHIN, WORDS):
    hvd.synchronize(handle)
    NEXT
with fails(1, WORDS):
    hora.barrier()
"""
# What has been launched cannot fail any more, so that some more calls may succeed.
CALLS_AGAIN = "while True: hvd.allreduce_(array, name='next', op=hvd.Sum)"
IS_IDLE = "driver().synchronize(); hora.barrier()"


def fault(words: str, then: str, within_s: int = 3) -> str:
    return FAULT.replace("WORDS", words).replace("NEXT", then).replace("WITHIN", str(within_s))


@pytest.mark.parametrize("on_host", ["false", "true"])
def test_hang_of_nccl_and_of_its_abort(on_host: str) -> None:
    """Processes end without waiting for the abort."""
    settings = {"HORA_FAKE_NCCL_HANG_AT": "1:1", "HORA_FAKE_NCCL_ABORT_MS": "30000", **SHORT}
    ending = run(fault("\"'struck'\"", CALLS_AGAIN), 3, HORA_WAIT_ON_HOST=on_host, **settings)
    assert_all_told(ending, 6, within_s=6)


@pytest.mark.parametrize("then", [CALLS_AGAIN, IS_IDLE])
def test_remote_error_is_told_at_once(then: str) -> None:
    """Not only when a deadline has passed, and also to a program that makes no further call."""
    settings = {"HORA_FAKE_NCCL_ERROR_AT": "1:1", "HORA_FAKE_CUDA_DELAY_US": "20000"}
    ending = run(fault("'remote process exited'", then), 3, **settings, **LONG)
    assert_all_told(ending, 6, within_s=6)
    assert ending.output.count("rank 1 failed") >= 4


def test_a_notice_names_the_rank_whose_device_has_not_begun() -> None:
    """Its program has put something else on its stream before, which takes long."""
    program = """
array = on_device(numpy.ones(1000), "float32")
hora.init()
hvd.allreduce_(array, name="first", op=hvd.Sum)
if rank == 1:
    until = time.monotonic() + 4
    takes_long = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(lambda _: time.monotonic() > until)
    with driver():
        driver().call("fake_cuda_enqueue", driver().stream, takes_long, None)
hvd.allreduce_(array, name="waits", op=hvd.Sum)
assert array.numpy().tolist() == [9.0] * 1000
hora.barrier()
"""
    ending = run(program, 3, HORA_STALL_WARNING_SECONDS="1", **LONG)
    assert ending.code == 0, ending.output
    notice = re.search(r"stalled:\n +allreduce 'waits' was agreed \d s ago.*\n(?: +.*\n)*", ending.output)
    assert notice, ending.output
    assert "rank 1 has not begun with it" in notice[0]
    assert "rank 0 has" not in notice[0] and "rank 2 has" not in notice[0]


def test_fault_of_a_device_is_told_at_once() -> None:
    """To all ranks, whose own devices wait for that one."""
    program = """
DeviceArray.__del__ = keep_memory
if rank == 1:
    nccl.fake_nccl_slow(rank, 300_000)
hora.init()
array = on_device(numpy.ones(1000), "float32")
handle = hvd.allreduce_async_(array, name="struck", op=hvd.Sum)
with contextlib.suppress(HorovodInternalError):  # it may be struck before this rank has looked
    hvd.synchronize(handle)
if rank == 1:
    driver().library.fake_cuda_break_device(rank, 700)
words = ["CUDA_ERROR_ILLEGAL_ADDRESS", *(["rank 1"] if rank != 1 else [])]
with fails(3, *words):
    hvd.allreduce_(array, name="next", op=hvd.Sum)
with fails(3, *words):
    hora.barrier()
if rank != 1:
    driver().synchronize()
"""
    assert_all_told(run(program, 3, **LONG), 6, within_s=6)


def test_optimizer_takes_no_step_after_a_failure() -> None:
    """Also inside of skip_synchronize(), and when the gradients have been synchronized before."""
    program = """
import torch
import hora.torch

DeviceArray.__del__ = keep_memory
hora.init()
torch.manual_seed(1)
model = torch.nn.Linear(3, 1)
optimizer = hora.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
model(torch.ones(1, 3)).sum().backward()
optimizer.synchronize()
before = [parameter.detach().clone() for parameter in model.parameters()]
handle = hvd.allreduce_async_(on_device(numpy.ones(10), "float32"), name="struck", op=hvd.Sum)
with contextlib.suppress(HorovodInternalError):
    hvd.synchronize(handle)
    while True:
        hora.barrier()
with fails(1, "remote process exited"), optimizer.skip_synchronize():
    optimizer.step()
with fails(1, "remote process exited"):
    optimizer.step()
assert all(torch.equal(was, now) for was, now in zip(before, model.parameters()))
"""
    assert_all_told(run(program, HORA_FAKE_NCCL_ERROR_AT="1:0", limit_s=40, **LONG), 4, within_s=30)
