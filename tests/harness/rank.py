"""What runs in each process of a launch: pytest, each test reported to the launcher before the next begins.

Usage: ``python -m harness.rank FOLDER [pytest arguments]``, started by `harness.launch` only.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from harness.channel import DONE, Channel
from harness.peers import Peers

DEFAULT_LIMIT_S = 60.0


class HookSpecs:
    """Called in a conftest when tests fail, so that it can bring the library back to a clean start."""

    def pytest_failed_here(self) -> None:
        """This rank failed; peers may wait for it inside the library."""

    def pytest_failed_somewhere(self) -> None:
        """All ranks have ended a test that failed on some; called on all of them."""


class RankPlugin:
    """Reports each test to the launcher and waits for the peers' reports."""

    def __init__(self, channel: Channel, already_done: int) -> None:
        self._channel = channel
        self._already_done = already_done
        self._troubles: list[dict[str, str]] = []
        self._outcome = ""
        self._detail = ""

    def pytest_addhooks(self, pluginmanager: pytest.PytestPluginManager) -> None:
        pluginmanager.add_hookspecs(HookSpecs)

    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.tbstyle = "short"
        config.addinivalue_line("markers", "timeout(seconds): how long the test may take on any rank")

    @pytest.fixture
    def peers(self) -> Peers:
        return Peers(self._channel)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":
            trouble = {"name": report.nodeid, "outcome": report.outcome, "detail": report.longreprtext}
            self._troubles.append(trouble)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        names = [item.nodeid for item in session.items]
        self._channel.gather("collected", tests=names, troubles=self._troubles)
        del session.items[: self._already_done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        mark = item.get_closest_marker("timeout")
        limit_s = float(mark.args[0]) if mark else DEFAULT_LIMIT_S
        self._outcome, self._detail = "passed", ""
        self._channel.gather("start", test=item.nodeid, limit_s=limit_s)
        handled = yield
        self._end(item.config)
        return handled

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == "skipped" and self._outcome == "passed":
            self._outcome, self._detail = "skipped", report.longreprtext
        if report.outcome == "failed":
            sections = "".join(f"\n{title}\n{text}" for title, text in report.sections)
            self._detail += f"[{report.when}] {report.longreprtext}{sections}\n"
            self._outcome = "failed"

    def _end(self, config: pytest.Config) -> None:
        self._channel.post({"kind": "end", "outcome": self._outcome, "detail": self._detail})
        if self._outcome == "failed":
            config.hook.pytest_failed_here()
        if any(message["outcome"] == "failed" for message in self._channel.receive()):
            config.hook.pytest_failed_somewhere()
        self._channel.gather("clean")

    def pytest_sessionfinish(self) -> None:
        self._channel.gather("done")


def redirect_output(folder: Path, rank: int) -> None:
    """Send all that this process prints into a file of its own, and its stacks into another on SIGUSR1."""
    log = os.open(folder / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    stacks = os.open(folder / f"rank{rank}.stacks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    faulthandler.enable(2)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)


def main() -> int:
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    redirect_output(Path(sys.argv[1]), rank)
    plugin = RankPlugin(Channel(rank), int(os.environ[DONE]))
    options = ["-c", os.devnull, "--rootdir", str(Path(__file__).parents[2]), "--strict-markers"]
    options += [
        "--continue-on-collection-errors",
        *(f"-pno:{name}" for name in ("cacheprovider", "timeout", "terminal")),
    ]
    status = pytest.main([*options, *sys.argv[2:]], plugins=[plugin])
    reported = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
    return 0 if status in reported else int(status)


if __name__ == "__main__":
    sys.exit(main())
