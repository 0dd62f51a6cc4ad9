"""How a process that used hora ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from types import TracebackType

from hora import _core

__all__ = ["process_exit"]


class ProcessExit:
    """Shuts hora down at interpreter exit, or leaves at once when this rank died of an uncaught exception.

    A normal exit finalises MPI, which waits for the other ranks. They may wait for a collective that this
    rank will never call, so a rank with an uncaught exception prints its traceback, flushes and leaves
    without finalising: the launcher then ends the job. Nothing of this happens in a forked child.
    """

    def __init__(self) -> None:
        self._pid = -1
        self._raised = False
        self._alone = False
        self._print_exception = sys.excepthook

    def arm(self) -> None:
        """Install the hooks, once in each process."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._print_exception, sys.excepthook = sys.excepthook, self._on_uncaught
        atexit.register(self._at_exit)

    def started(self) -> None:
        """Note whether there are peers: a process without MPI keeps Python's ordinary exit in every case."""
        self._alone = _core.transport() == "local"

    def _on_uncaught(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        self._raised = True
        self._print_exception(kind, error, traceback)

    def _at_exit(self) -> None:
        if self._pid != os.getpid():
            return
        if self._raised and not self._alone:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(1)
        _core.shutdown()


process_exit = ProcessExit()
