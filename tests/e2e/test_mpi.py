"""Whole scripts under `mpirun`: who starts and ends MPI, and how processes end."""

from __future__ import annotations

import os
import re

import pytest
from harness.mpirun import Ending, run_script

WORK = """
import numpy
for step in range(20):
    assert hora.allreduce(numpy.array([float(step)]), op=hora.Sum)[0] == step * hora.size()
"""
WITH_BOTH = """
for step in range(20):
    assert MPI.COMM_WORLD.allreduce(step) == step * hora.size()
    assert hora.allreduce(numpy.array([float(step)]), op=hora.Sum)[0] == step * hora.size()
"""
DONE = "\nprint('done', hora.rank() if hora.is_initialized() else '-', flush=True)\n"


def assert_clean(ending: Ending, ranks: int) -> None:
    assert ending.code == 0, ending.output
    assert ending.output.count("done") == ranks, ending.output
    assert ending.left == []


def assert_no_crash(ending: Ending) -> None:
    assert ending.code is not None, f"hangs\n{ending.output}"
    assert "signal" not in ending.output.lower().replace("signal handler", ""), ending.output
    assert "Segmentation" not in ending.output
    assert ending.left == []


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("end", ["", "hora.shutdown()", "hora.shutdown(); hora.init()", "hora.barrier()"])
def test_hora_alone(end: str, ranks: int) -> None:
    assert_clean(run_script(f"import hora\nhora.init()\n{WORK}\n{end}\n{DONE}", ranks), ranks)


MPI4PY = {
    "before": "from mpi4py import MPI\nimport hora, numpy\nhora.init()\n",
    "between import and init": "import hora, numpy\nfrom mpi4py import MPI\nhora.init()\n",
    "after": "import hora, numpy\nhora.init()\nfrom mpi4py import MPI\n",
}
ENDS = {
    "nothing": "",
    "shutdown": "hora.shutdown()",
    "new session": "hora.shutdown(); hora.init()" + WITH_BOTH,
    "finalised by the user after shutdown": "hora.shutdown(); MPI.Finalize()",
    "finalised by the user before shutdown": "MPI.Finalize()",
    "mpi4py alone at the end": "hora.shutdown(); MPI.COMM_WORLD.Barrier()",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("order", MPI4PY)
def test_with_mpi4py(order: str, end: str) -> None:
    assert_clean(run_script(MPI4PY[order] + WITH_BOTH + ENDS[end] + DONE, 2), 2)


def test_finalized_by_mpi4py_and_never_by_hora() -> None:
    script = """
import mpi4py
mpi4py.rc.finalize = False
from mpi4py import MPI
import atexit
atexit.register(lambda: (MPI.COMM_WORLD.Barrier(), print("alive", flush=True), MPI.Finalize()))
import hora
hora.init()
"""
    ending = run_script(script + WORK + "hora.shutdown()\nassert not MPI.Is_finalized()" + DONE, 2)
    assert_clean(ending, 2)
    assert ending.output.count("alive") == 2


def test_import_does_not_initialise_mpi() -> None:
    script = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
import hora
assert not MPI.Is_initialized()
hora.init()
assert MPI.Is_initialized() and MPI.Query_thread() == MPI.THREAD_MULTIPLE
"""
    assert_clean(run_script(script + WORK + DONE, 2), 2)


@pytest.mark.parametrize("level", ["single", "funneled"])
def test_too_low_a_thread_level_is_a_message(level: str) -> None:
    script = f"""
import mpi4py
mpi4py.rc.thread_level = "{level}"
from mpi4py import MPI
import hora
assert MPI.Query_thread() < MPI.THREAD_SERIALIZED
hora.init()
"""
    ending = run_script(script + WORK + DONE, 2)
    assert_no_crash(ending)
    assert ending.code != 0
    assert "done" not in ending.output
    assert "RuntimeError" in ending.output
    assert "MPI_THREAD_MULTIPLE" in ending.output, "the level that is needed"
    assert f"MPI_THREAD_{level.upper()}" in ending.output, "the level that was found"
    assert "thread_level" in ending.output, "the cure"


def test_after_a_refused_thread_level_the_user_goes_on() -> None:
    script = """
import mpi4py
mpi4py.rc.thread_level = "single"
from mpi4py import MPI
import hora
for attempt in range(2):
    try:
        hora.init()
    except RuntimeError as error:
        print("refused", flush=True)
    assert not hora.is_initialized()
assert MPI.COMM_WORLD.allreduce(1) == 2
"""
    ending = run_script(script + DONE, 2)
    assert_clean(ending, 2)
    assert ending.output.count("refused") == 4


def test_plain_python_is_one_rank() -> None:
    facts = "assert (hora.rank(), hora.size(), hora.local_rank(), hora.local_size()) == (0, 1, 0, 1)"
    assert_clean(run_script(f"import hora\nhora.init()\n{facts}\n{WORK}{DONE}", 0), 1)


def test_launcher_that_says_more_processes_than_mpi_sees() -> None:
    for variables in ({"OMPI_COMM_WORLD_SIZE": "4"}, {"PMI_SIZE": "4", "PMI_RANK": "0"}):
        ending = run_script(f"import hora\nhora.init()\n{DONE}", 0, environment=variables)
        assert_no_crash(ending)
        assert ending.code != 0, ending.output
        assert "4" in ending.output and "1" in ending.output
        assert next(iter(variables)) in ending.output


# Endings


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize(
    "failure", ["raise RuntimeError('on purpose')", "sys.exit(3)", "os._exit(4)", "os.kill(os.getpid(), 9)"]
)
def test_one_rank_fails_and_the_job_ends(failure: str, failing: int) -> None:
    script = f"""
import hora, numpy, os, sys, time
hora.init()
{WORK}
if hora.rank() == {failing}:
    {failure}
if hora.rank() == ({failing} + 1) % 3:
    hora.allreduce(numpy.ones(5), name="waiting")
time.sleep(120)
"""
    ending = run_script(script, 3, limit_s=40)
    assert ending.code is not None, f"hangs\n{ending.output}"
    assert ending.code != 0
    assert ending.seconds < 20
    assert ending.left == []
    if "purpose" in failure:
        assert "RuntimeError: on purpose" in ending.output


def test_rank_that_ends_early_is_named_to_those_that_wait() -> None:
    script = f"""
import hora, numpy
hora.init()
{WORK}
if hora.rank() == 1:
    raise SystemExit(0)
try:
    hora.allreduce(numpy.ones(5), name="waiting")
except hora.HorovodInternalError as error:
    assert "rank 1" in str(error), error
    print("told", flush=True)
"""
    ending = run_script(script, 3, limit_s=40)
    assert ending.code == 0, ending.output
    assert ending.output.count("told") == 2


def test_bad_setting_on_one_rank_ends_the_job() -> None:
    script = "import os\nif os.environ['OMPI_COMM_WORLD_RANK'] == '1': os.environ['HORA_PIECE_BYTES'] = 'x'\n"
    ending = run_script(f"{script}import hora\nhora.init()\n{WORK}{DONE}", 2, limit_s=40)
    assert_no_crash(ending)
    assert ending.code != 0
    assert "HORA_PIECE_BYTES" in ending.output


def test_settings_that_differ_are_refused_on_all_ranks_with_a_table() -> None:
    script = """
import os
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 1: os.environ["HORA_FUSION_THRESHOLD"] = "77"
if rank == 2: os.environ["HORA_SHARED_MEMORY"] = "off"
import hora
try:
    hora.init()
except RuntimeError as error:
    print(f"rank {rank} was told{error}", flush=True)
for name in ("HORA_FUSION_THRESHOLD", "HORA_SHARED_MEMORY"):
    os.environ.pop(name, None)
hora.init()
"""
    ending = run_script(f"{script}{WORK}{DONE}", 3)
    assert_clean(ending, 3)
    for rank in range(3):
        assert f"rank {rank} was told" in ending.output
    for row in (
        r"HORA_FUSION_THRESHOLD +33554432 +0,2",
        r"HORA_FUSION_THRESHOLD +77 +1",
        r"HORA_SHARED_MEMORY +false +2",
        r"HORA_SHARED_MEMORY +true +0,1",
    ):
        assert len(re.findall(row, ending.output)) == 3, ending.output
    assert "HORA_PIECE_BYTES" not in ending.output


@pytest.mark.parametrize(
    ("setting", "times"), [({}, 1), ({"HORA_BANNER": "0"}, 0), ({"HORA_LOG_LEVEL": "off"}, 1)]
)
def test_rank_0_says_once_what_was_started(setting: dict[str, str], times: int) -> None:
    script = f"import hora\nhora.init(); hora.shutdown(); hora.init()\n{WORK}{DONE}"
    ending = run_script(script, 2, environment=setting)
    assert_clean(ending, 2)
    line = r"\[hora rank 0/2\] hora \d+\.\d+\.\d+: 2 ranks on 1 host over shared memory; .*COMM_WORLD_SIZE\n"
    assert len(re.findall(line, ending.output)) == times, ending.output


def test_a_lone_rank_says_nothing() -> None:
    ending = run_script(f"import hora\nhora.init()\n{WORK}{DONE}", 1)
    assert_clean(ending, 1)
    assert "[hora" not in ending.output


def test_lines_of_the_log_name_rank_and_size() -> None:
    ending = run_script(f"import hora\nhora.init()\n{WORK}{DONE}", 2, environment={"HOROVOD_CYCLE_TIME": "1"})
    assert_clean(ending, 2)
    line = r"^\[hora rank 0/2\] \[[0-9:.]+\] \[warning\] .*HOROVOD_CYCLE_TIME"
    assert re.search(line, ending.output, re.MULTILINE), ending.output


def test_rank_that_never_calls_init() -> None:
    """A process that only imports Hora ends without waiting for anybody."""
    script = "import hora\nif hora.is_initialized(): raise SystemExit(1)\nprint('done', flush=True)\n"
    assert_clean(run_script(script, 2), 2)


@pytest.mark.parametrize("child", ["sys.exit(0)", "raise SystemExit(0)", "os._exit(0)", "pass"])
def test_forked_child_never_ends_mpi_of_its_parent(child: str) -> None:
    script = f"""
import hora, os, sys
hora.init()
{WORK}
pid = os.fork()
if pid == 0:
    {child}
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0, "the child failed"
"""
    assert_clean(run_script(script + WORK + DONE, 2), 2)


def test_interrupt_reaches_a_waiting_script() -> None:
    script = """
import hora, numpy, os, signal, threading
hora.init()
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    hora.allreduce(numpy.ones(5), name=f"alone.{hora.rank()}")
except KeyboardInterrupt:
    print("interrupted", flush=True)
os._exit(0)
"""
    ending = run_script(script, 2, limit_s=30)
    assert ending.output.count("interrupted") == 2, ending.output


def test_each_rank_is_told_once_about_a_single_core() -> None:
    script = (
        f"import os, hora\nos.sched_setaffinity(0, [0])\nhora.init(); hora.shutdown(); hora.init()\n{DONE}"
    )
    ending = run_script(script, 2)
    assert_clean(ending, 2)
    expected = 2 if (os.cpu_count() or 1) > 1 else 0
    assert ending.output.count("--bind-to none") == expected, ending.output


@pytest.mark.parametrize("split", ["1,1", "2,1"])
def test_idle_ranks_of_several_hosts_take_no_time(split: str) -> None:
    script = """
import hora, resource, time
hora.init()
hora.barrier()
def seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
time.sleep(0.2)
before = seconds()
time.sleep(1)
used = seconds() - before
assert used < 0.01, f"{used * 100} % of a core"
hora.barrier()
"""
    ranks = sum(map(int, split.split(",")))
    assert_clean(run_script(script + DONE, ranks, environment={"HORA_HOST_SPLIT": split}), ranks)
