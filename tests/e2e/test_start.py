"""What may be wrong when a job starts: ranks that do not come, that differ, or that lack something."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import pytest
from harness.mpirun import RECOVERY, Ending, run_to_end

import hora

OTHER_VERSION = "9.9.9"
PROLOGUE = """
import ctypes, os, resource, signal, struct, sys, time
import numpy

number = int(os.environ["OMPI_COMM_WORLD_RANK"])

def say(text):
    sys.stdout.write(f"rank {number}: {text}\\n")

def init(*arguments):
    import hora
    try:
        hora.init(*arguments)
    except RuntimeError as error:
        say(f"told: {error}")
        os._exit(3)
    return hora

"""


def run(program: str, ranks: int = 2, limit_s: float = 20, **settings: str) -> Ending:
    return run_to_end(PROLOGUE + program, ranks, limit_s, settings)


NEVER_COMES = {
    "at all": "",
    "beyond MPI": "from mpi4py import MPI\n",
    "to a group": "from mpi4py import MPI\narguments = [[0, 1]]\n",
    "to a communicator": "from mpi4py import MPI\narguments = [MPI.COMM_WORLD]\n",
}


@pytest.mark.parametrize("variable", ["HORA_START_TIMEOUT_SECONDS", "HOROVOD_START_TIMEOUT"])
@pytest.mark.parametrize("how", NEVER_COMES)
def test_a_rank_that_never_comes_is_waited_for_so_long(how: str, variable: str) -> None:
    program = (
        "arguments = []\n"
        + NEVER_COMES[how]
        + """
if number == 1:
    time.sleep(60)
import hora
start = time.time()
try:
    hora.init(*arguments)
except RuntimeError as error:
    say(f"told after {time.time() - start:.1f} s: {error}")
    raise
"""
    )
    ending = run(program, **{variable: "2"})
    assert ending.code not in (0, None), ending.output
    found = re.search(r"rank 0: told after ([0-9.]+) s: not all ranks called init within 2 s", ending.output)
    assert found, ending.output
    assert 1.5 < float(found[1]) < 10
    assert "(HORA_START_TIMEOUT_SECONDS)" in ending.output
    assert ending.seconds < 30


@pytest.mark.parametrize("end", ["", "MPI.Finalize()"], ids=["at exit", "by hand"])
@pytest.mark.parametrize("how", ["beyond MPI", "to a group", "to a communicator"])
def test_a_users_mpi_that_ends_under_a_start_that_hangs_ends_the_job(how: str, end: str) -> None:
    program = f"""
arguments = []
{NEVER_COMES[how]}
if number == 1:
    time.sleep(60)
import hora
try:
    hora.init(*arguments)
except RuntimeError as error:
    say(f"told: {{error}}")
{end}
"""
    ending = run(program, HORA_START_TIMEOUT_SECONDS="1")
    assert ending.code not in (0, None), ending.output
    assert "rank 0: told: not all ranks called init within 1 s" in ending.output
    assert ending.output.count("all ranks are ended by MPI_Abort") == 1, ending.output
    assert "Segmentation" not in ending.output, ending.output


def test_who_goes_on_by_itself_after_waiting_in_vain_ends_as_it_wants() -> None:
    program = """
import hora
if number == 1:
    time.sleep(4)
    os._exit(0)
try:
    hora.init()
except RuntimeError:
    pass
try:
    hora.init()
except RuntimeError as error:
    say(f"told: {error}")
say("ends")
"""
    ending = run(program, HORA_START_TIMEOUT_SECONDS="1", **RECOVERY)
    assert "rank 0: told: hora failed in this process before" in ending.output
    assert "rank 0: ends" in ending.output
    assert "signal" not in ending.output, ending.output


def other_version(folder: Path) -> Path:
    """Copy the package; the core of the copy says that it is of another version."""
    original = Path(hora.__file__).parent
    leave_out = shutil.ignore_patterns("__pycache__", "tensorflow", "libhora_tensorflow.so")
    shutil.copytree(original, folder / "hora", ignore=leave_out)
    library = folder / "hora" / "libhora.so"
    own, other = (f"\0{version}\0".encode() for version in (hora.__version__, OTHER_VERSION))
    code = library.read_bytes()
    assert code.count(own) == 1 and len(own) == len(other)
    library.write_bytes(code.replace(own, other))
    return folder


def test_versions_that_differ_are_refused_on_all_ranks_with_a_table(tmp_path: Path) -> None:
    program = f"""
if number == 1:
    sys.path.insert(0, {str(other_version(tmp_path))!r})
init()
"""
    ending = run(program, 3, **RECOVERY)
    table = rf"""told: the ranks of this job differ in what has to be the same on all of them:
 +setting +value +ranks
 +version of hora +{hora.__version__} +0,2
 +version of hora +{OTHER_VERSION} +1
"""
    assert len(re.findall(table, ending.output)) == 3, ending.output


FEW_FILES = """
import hora
from mpi4py import MPI
used = len(os.listdir("/proc/self/fd")) - 1
if number in SHORT:
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + SPARE, used + SPARE))
hora = init()
assert hora.allreduce(numpy.ones(1), op=hora.Sum)[0] == 2
say("works")
os._exit(0)
"""


def test_no_file_descriptor_at_all_is_a_message_with_numbers() -> None:
    ending = run(FEW_FILES.replace("SHORT", "(0, 1)").replace("SPARE", "0"), **RECOVERY)
    told = re.findall(r"told: .*Too many open files: (\d+) of (\d+) file descriptors", ending.output)
    assert len(told) == 2, ending.output
    assert all(used == most for used, most in told)


@pytest.mark.parametrize("short", [(0, 1), (0,), (1,)])
def test_too_few_file_descriptors_for_shared_memory_are_told_once(short: tuple[int, ...]) -> None:
    program = FEW_FILES.replace("SHORT", str(short)).replace("SPARE", "4")
    ending = run(program, **RECOVERY)
    assert ending.output.count("works") == 2, ending.output
    told = re.findall(
        r"over mpi instead of shared memory: rank (\d): (\d+) file descriptors are needed, and "
        r"(\d+) of (\d+) file descriptors are in use",
        ending.output,
    )
    assert len(told) == ending.output.count("instead of shared memory") == 1, ending.output
    rank, needed, used, most = map(int, told[0])
    assert rank == short[0]
    assert used <= most < used + needed


FORBID = """
def forbid(call, error):
    # A program for the kernel: load the call's number; if it is this one, fail so; else allow.
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x50000 + error), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    if libc.prctl(22, 2, program, 0, 0) != 0:  # filter calls
        say("cannot filter")

"""
WITHOUT_PIDFD = """
forbid(434, 38)  # pidfd_open: ENOSYS
hora = init()
hora.barrier()
start = time.time()
if number == 1:
    if os.fork() == 0:
        time.sleep(4)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hora.allreduce(numpy.ones(1), name="x")
except RuntimeError as error:
    say(f"told after {time.time() - start:.1f} s: {error}")
time.sleep(1)
os._exit(4)
"""


def test_where_the_system_has_no_pidfd_pipes_watch_and_it_is_said_once() -> None:
    ending = run(FORBID + WITHOUT_PIDFD, 3, **RECOVERY)
    if "cannot filter" in ending.output:
        pytest.skip("system calls cannot be filtered here")
    assert ending.output.count("the ranks of this host watch each other by pipes") == 1, ending.output
    assert "(pidfd_open: Function not implemented)" in ending.output
    told = re.findall(r"told after ([0-9.]+) s: .*rank 1 failed: it ended without notice", ending.output)
    assert len(told) == 2, ending.output
    assert all(float(seconds) < 2 for seconds in told)


EPOLL_CREATE1 = {"x86_64": 291, "aarch64": 20}.get(platform.machine())
WITHOUT_EPOLL = """
from mpi4py import MPI
if number == LACKS:
    forbid(CALL, 38)  # epoll_create1: ENOSYS
hora = init()
assert hora.allreduce(numpy.ones(1), op=hora.Sum)[0] == 3
say("works")
os._exit(0)
"""


@pytest.mark.skipif(EPOLL_CREATE1 is None, reason="the call's number on this machine is not known")
@pytest.mark.parametrize("lacks", [0, 1])
def test_a_rank_that_cannot_watch_the_others_shares_memory_with_none(lacks: int) -> None:
    program = WITHOUT_EPOLL.replace("LACKS", str(lacks)).replace("CALL", str(EPOLL_CREATE1))
    ending = run(FORBID + program, 3, **RECOVERY)
    if "cannot filter" in ending.output:
        pytest.skip("system calls cannot be filtered here")
    assert ending.output.count("works") == 3, ending.output
    told = re.findall(r"over mpi instead of shared memory: (.*)", ending.output)
    where = "" if lacks == 0 else f"rank {lacks}: "
    assert told == [f"{where}epoll_create1: Function not implemented"], ending.output
