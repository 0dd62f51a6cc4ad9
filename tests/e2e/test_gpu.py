"""What is told, and how processes end, when a GPU, NCCL or a rank that uses them fails.

Every test runs a program on device arrays, over the stand-ins for CUDA's driver and NCCL.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness.mpirun import Ending, run_script

TESTS = Path(__file__).parents[1]
STAND_INS = TESTS.parent / "build" / "dev" / "stand_ins"
SHARED_MEMORY = Path("/dev/shm")
# Open MPI 4.1 and 5 then leave the other ranks alone when one dies.
RECOVERY = {"OMPI_MCA_orte_enable_recovery": "1", "PRTE_MCA_prte_enable_recovery": "1"}
# A wait that only its deadline ends takes longer than any program here.
LONG = {"HORA_DEVICE_TIMEOUT": "60"}
SHORT = {"HORA_DEVICE_TIMEOUT": "1"}

PROLOGUE = """
import contextlib, ctypes, gc, os, signal, subprocess, sys, time
import numpy
import hora
import device_arrays
from device_arrays import DeviceArray, DeviceName, driver, make_front_end, on_device
from hora.errors import HorovodInternalError

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
nccl = ctypes.CDLL(str(device_arrays.SETTINGS["HORA_NCCL_LIBRARY"]))
hvd = make_front_end()

def say(text):
    sys.stdout.write(f"{text}\\n")

@contextlib.contextmanager
def fails(within_s, *words, kind=HorovodInternalError):
    '''What goes wrong within it is told soon, and has all the words.'''
    start = time.monotonic()
    try:
        yield
    except kind as error:
        seconds = time.monotonic() - start
        assert seconds < within_s, f"{seconds:.1f} s: {error}"
        assert all(word in str(error) for word in words), error
        say(f"told after {seconds:.2f} s: {error}")
    else:
        raise AssertionError("nothing was told")

def counted(names):
    '''The type of what a stand-in counts.'''
    fields = [(name, ctypes.c_uint64) for name in names.split()]
    return type("Counts", (ctypes.Structure,), {"_fields_": fields})

def keep_memory(array):
    '''Takes the place of freeing it, which waits for the device. PyTorch keeps it, too.'''

def summed(values, **arguments):
    return hvd.allreduce(on_device(values, "float32"), op=hvd.Sum, **arguments).numpy().tolist()

def assert_works():
    assert summed([rank, 1.0]) == [size * (size - 1) / 2, size]
"""


def run(program: str, ranks: int = 2, limit_s: float = 20, **settings: str) -> Ending:
    """Run a program that finds the stand-ins."""
    path = [str(TESTS / "parallel"), *filter(None, [os.environ.get("PYTHONPATH")])]
    before = set(SHARED_MEMORY.glob("*hora*"))
    environment = {
        "PYTHONPATH": os.pathsep.join(path),
        "HORA_CUDA_LIBRARY": str(STAND_INS / "libhora_fake_cuda.so"),
        "HORA_NCCL_LIBRARY": str(STAND_INS / "libhora_fake_nccl.so"),
        **settings,
    }
    ending = run_script(PROLOGUE + program, ranks, limit_s, environment=environment)
    print(f"{ending.seconds:.1f} s, code {ending.code}\n{ending.output}")
    assert ending.code is not None, f"hangs\n{ending.output}"
    assert "hora_fake_nccl: " not in ending.output, ending.output
    assert ending.left == []
    assert set(SHARED_MEMORY.glob("*hora*")) <= before
    return ending


def assert_all_told(ending: Ending, ranks: int, within_s: float) -> None:
    """The ranks were told, and ended by themselves."""
    assert ending.output.count("told after") == ranks, ending.output
    assert "Traceback" not in ending.output, ending.output
    assert ending.seconds < within_s, ending.output


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
with fails(3, "allreduce 'lost'"):
    hvd.synchronize(handle)
    hvd.allreduce(array, name="next")
array.numpy()  # the device is free again
with fails(1, "allreduce 'lost'"):
    hora.barrier()
"""


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize(("lost", "on_host"), [(0, "false"), (1, "true")])
def test_rank_lost_in_the_middle(number: str, lost: int, on_host: str) -> None:
    program = IN_THE_MIDDLE.replace("LOST", str(lost)).replace("SIGNAL", number)
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


# What the caller's stream was given before is part of the result


@pytest.mark.parametrize("seed", ["0", "7"])
def test_work_on_the_current_stream_comes_first(seed: str) -> None:
    """A long chain of copies is under way when the call is made."""
    program = """
hora.init()

def new_stream():
    stream = ctypes.c_void_p()
    with driver():
        driver().call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
    return stream

def reduce_behind_copies(number, synchronized):
    values = numpy.random.default_rng([rank, number]).random(500, "float32")
    first, chain = on_device(values, "float32"), [DeviceArray((500,), "float32") for _ in range(8)]
    for source, target in zip([first, *chain], chain):
        driver().copy(target.data_ptr(), source.data_ptr(), target.nbytes)
    if synchronized:
        driver().synchronize()
    if number % 2:
        return hvd.allreduce(chain[-1], op=hvd.Sum).numpy()
    handle = hvd.allreduce_async_(chain[-1], op=hvd.Sum)
    return hvd.synchronize(handle).numpy()

side, default = new_stream(), ctypes.c_void_p(0)
for number in range(50):
    driver().stream = default if number % 3 == 0 else side if number % 3 == 1 else new_stream()
    at_once = reduce_behind_copies(number, synchronized=False)
    sources = [numpy.random.default_rng([peer, number]).random(500, "float32") for peer in range(size)]
    numpy.testing.assert_array_equal(at_once, reduce_behind_copies(number, synchronized=True))
    numpy.testing.assert_allclose(at_once, sum(sources), rtol=1e-6)

# Several streams in one batch, each with its own chain.
streams = [new_stream() for _ in range(4)]
for number in range(10):
    arrays, handles = [], []
    for n, stream in enumerate(streams):
        driver().stream = stream
        first, last = on_device([rank + n + number], "float32"), DeviceArray((1,), "float32")
        driver().copy(last.data_ptr(), first.data_ptr(), 4)
        arrays.append((first, last))
        handles.append(hvd.allreduce_async_(last, name=f"several.{n}", op=hvd.Sum))
    driver().stream = side
    for n, handle in enumerate(handles):
        assert hvd.synchronize(handle).numpy() == [1 + 2 * (n + number)]
say("right")
"""
    ending = run(program, HORA_FAKE_CUDA_DELAY_US="200", HORA_FAKE_CUDA_SEED=seed)
    assert ending.code == 0
    assert ending.output.count("right") == 2


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


# The host never waits for the device


def test_steady_state_neither_synchronizes_nor_allocates() -> None:
    program = """
hora.init()
cuda = driver().library
cuda.fake_cuda_counts.restype = counted(
    "allocations frees live_bytes events_created events_destroyed streams_created streams_destroyed kernels "
    "copies host_functions synchronizations fills calls_from_host_functions"
)
STILL = "allocations frees synchronizations events_destroyed streams_created".split()

def counts():
    found = cuda.fake_cuda_counts()
    return {name: getattr(found, name) for name, _ in found._fields_}

arrays = [on_device(numpy.ones(100 * n), "float32") for n in range(1, 11)]
rows = on_device(numpy.ones((4 * size, 3)), "float32")

def step():
    handles = [hvd.allreduce_async_(array, name=f"step.{n}") for n, array in enumerate(arrays)]
    for handle in handles:
        hvd.synchronize(handle)
    hvd.grouped_allreduce_(arrays, name="group")
    hvd.broadcast_(rows, 0, name="broadcast")
    hvd.allgather(rows, name="gather")
    hvd.alltoall(rows, name="exchange")

for _ in range(20):
    step()
cuda.fake_cuda_drain(5000)
hora.barrier()
before = counts()
for _ in range(50):
    step()
after = counts()
assert after["kernels"] > before["kernels"]
moved = {name: after[name] - before[name] for name in STILL if after[name] != before[name]}
assert not moved, moved
assert after["calls_from_host_functions"] == 0
events = after["events_created"] - before["events_created"]
say(f"steady; {events} events, {after['host_functions'] - before['host_functions']} host functions")
assert events < 200, events
driver().synchronize()
assert (arrays[0].numpy() == 1).all()
"""
    ending = run(program)
    assert ending.code == 0
    assert ending.output.count("steady") == 2


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
    assert ending.output.count("in flight") == 2, ending.output
    assert "signal" not in ending.output, ending.output
    assert (ending.code == 0) == (end != "raise ValueError(5)")
    assert ending.seconds < 8
