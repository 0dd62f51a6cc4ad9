"""Starts pytest on several ranks, follows every test, and ends what hangs or crashes.

The ranks of a launch run the same tests in the same order. A launch that hangs or crashes costs the test it
was in; the tests behind it run in a new launch.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import channel, processes
from harness.conversation import Conversation, Trouble
from harness.mpirun import mpirun, rank_environment
from harness.results import Result, by_rank

ROOT = Path(__file__).parents[2]
EXIT_S = 30.0  # from the last test to the end of the processes
RELAUNCHES = 5


@dataclass(frozen=True)
class Plan:
    """One launch: which tests, on how many ranks."""

    title: str
    arguments: Sequence[str]
    ranks: int = 1
    under_mpirun: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


def run_launch(plan: Plan, logs: Path, until: float) -> list[Result]:
    """Run the tests of `plan`, in several launches if some hang, and return their results.

    Parameters
    ----------
    logs
        Folder for what the ranks print; a folder of the launch's name in it is emptied first.
    until
        Time of `time.monotonic` at which everything must have ended.
    """
    if time.monotonic() > until:
        return [Result(plan.title, "failed", "not run: the time for all tests is over")]
    folder = logs / plan.title.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    results: list[Result] = []
    done = 0
    for attempt in range(RELAUNCHES + 1):
        with Launch(plan, folder / str(attempt), done, until) as launch:
            launch.follow()
        said = launch.conversation
        results += said.results
        done = said.done
        if done >= said.total or time.monotonic() > until:
            break
    missing = said.total - done
    return results + ([Result(plan.title, "failed", f"{missing} tests were not run")] if missing > 0 else [])


class Launch:
    """One running set of ranks, from their start to the end of their last process."""

    def __init__(self, plan: Plan, folder: Path, done: int, until: float) -> None:
        self._plan = plan
        self._folder = folder
        self._until = until
        self._mark = uuid.uuid4().hex
        self._address = Path(tempfile.mkdtemp(prefix="hora-test-")) / "channel"
        self.conversation = Conversation(self._address, plan.title, plan.ranks, done)

    def __enter__(self) -> Launch:
        self._folder.mkdir(parents=True)
        with (self._folder / "launcher.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        processes.end_all(self._mark)
        self._process.wait()
        self.conversation.close()
        shutil.rmtree(self._address.parent, ignore_errors=True)

    def _command(self) -> list[str]:
        launcher = mpirun(self._plan.ranks) if self._plan.under_mpirun else []
        return [*launcher, sys.executable, "-m", "harness.rank", str(self._folder), *self._plan.arguments]

    def _environment(self) -> dict[str, str]:
        path = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **rank_environment(PYTHONPATH=os.pathsep.join(path), PYTHONUNBUFFERED="1"),
            **self._plan.environment,
            processes.MARK: self._mark,
            channel.ADDRESS: str(self._address),
            channel.DONE: str(self.conversation.done),
        }

    def follow(self) -> None:
        """Let the ranks run until they have ended; a hang or crash becomes a failed test."""
        try:
            while self.conversation.phase != "done":
                self._wait_for_news()
            self._wait_for_exit()
        except Trouble as trouble:
            self._fail(str(trouble))

    def _wait_for_news(self) -> None:
        lost = self.conversation.listen(seconds=0.1)
        if self.conversation.phase == "done":
            return
        if lost:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            code = self._process.returncode
            raise Trouble(f"the process of rank {lost[0]} ended; exit code of the launch: {code}")
        if self._process.poll() is not None:
            raise Trouble(f"the launch ended with exit code {self._process.returncode}")
        if time.monotonic() > self._until:
            raise Trouble("stopped: the time for this suite is over")
        if time.monotonic() > self.conversation.deadline:
            raise Trouble(f"hangs: no report from ranks {self.conversation.silent()} in time")

    def _wait_for_exit(self) -> None:
        try:
            code = self._process.wait(max(1.0, min(EXIT_S, self._until - time.monotonic())))
        except subprocess.TimeoutExpired:
            raise Trouble("hangs after the last test") from None
        left = processes.wait_until_gone(self._mark, 5)
        if code != 0 or left:
            raise Trouble(f"unclean exit: code {code}, processes left: {left}")
        if self.conversation.total:
            self.conversation.results.append(Result(f"{self._plan.title}: clean exit", "passed"))

    def _fail(self, reason: str) -> None:
        """Count the current test as failed, with all that is known about the ranks."""
        said = self.conversation
        name = {"end": f"{said.name()} (cleaning up)", "done": f"{self._plan.title}: clean exit"}
        detail = "\n".join([reason, self._stacks(), self._output()])
        said.results.append(Result(name.get(said.phase, said.name()), "failed", detail))
        if said.test is not None:
            said.done += 1

    def _stacks(self) -> str:
        pids = self.conversation.pids.values()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5 if pids else 0)
        return "stacks:\n" + self._files("stacks")

    def _output(self) -> str:
        launcher = (self._folder / "launcher.log").read_text(errors="replace")
        return f"output:\n{self._files('log')}\n{launcher[-2000:]}"

    def _files(self, suffix: str) -> str:
        paths = [self._folder / f"rank{rank}.{suffix}" for rank in range(self._plan.ranks)]
        texts = [path.read_text(errors="replace") if path.exists() else "" for path in paths]
        return by_rank([essential(text) for text in texts])


def essential(text: str) -> str:
    """Return the end of a rank's output without the frames of pytest in its stacks."""
    lines = [line for line in text.splitlines() if not re.search(r'File ".*(/_pytest/|/pluggy/|runpy)', line)]
    return "\n".join(lines)[-4000:]
