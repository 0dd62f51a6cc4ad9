"""How a process that used hora ends, and what the other ranks learn of it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import traceback
from types import BuiltinFunctionType, TracebackType
from typing import NoReturn

from hora import _core
from hora.errors import HorovodInternalError

__all__ = ["process_exit"]


class Exit(SystemExit):
    """What ``sys.exit`` raises. Nothing tells an exit handler the code, but this is deleted just before.

    An exception that somebody catches is deleted while code runs; one that ends the interpreter, when all
    code of the main thread has been left.
    """

    def __del__(self) -> None:
        is_last = sys._getframe().f_back is None and threading.current_thread() is threading.main_thread()
        if is_last and self.code not in (None, 0):
            process_exit.ends_with(self.code if isinstance(self.code, int) else 1)


def exit_and_tell(status: str | int | None = None, /) -> NoReturn:
    """Take the place of ``sys.exit``."""
    raise Exit(status)


class ProcessExit:
    """Shuts hora down at interpreter exit, or leaves at once when this rank failed.

    A normal exit finalises MPI, which waits for the other ranks. They may wait for a collective that this
    rank will never call. So a rank with an uncaught exception, or an exit code other than 0, prints its
    traceback, tells the other ranks why it ends, and leaves without finalising: they fail with that reason,
    and the launcher ends the job. Nothing of this happens in a forked child.
    """

    def __init__(self) -> None:
        self._pid = -1
        self._code: int | None = None  # of a failure
        self._reason = ""
        self._alone = False
        self._print_exception = sys.excepthook

    def arm(self) -> None:
        """Install the hooks, once in each process."""
        if self._pid == os.getpid():
            return
        self._pid, self._code = os.getpid(), None
        if sys.excepthook != self._on_uncaught:
            self._print_exception, sys.excepthook = sys.excepthook, self._on_uncaught
        atexit.register(self._at_exit)

    def started(self) -> None:
        """Note whether there are peers: a process without MPI keeps Python's ordinary exit in every case."""
        self._alone = _core.transport() == "local"

    def _on_uncaught(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        if not hasattr(sys, "ps1"):  # at a prompt the program goes on
            self._code = 1
        if self._pid == os.getpid() and not self._alone and is_news_of_peer(error):
            # The rank that failed prints all of it.
            say(f"this rank ends, too: {kind.__name__}: {error}{place_of(where)}")
            return
        self._reason = "".join(traceback.format_exception_only(kind, error)).strip()
        self._print_exception(kind, error, where)

    def ends_with(self, code: int) -> None:
        """Note the code of an exit that nobody caught."""
        if self._pid != os.getpid():
            return
        self._code, self._reason = code & 0xFF, f"it ended with exit code {code}"
        if not self._alone:
            say(f"this rank ends with exit code {code}")

    def _at_exit(self) -> None:
        if self._pid != os.getpid():
            return
        if self._code is None or self._alone:
            _core.shutdown()
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        try:
            _core.give_up(self._reason or "it ended with an exception")
        finally:
            os._exit(self._code)


def say(text: str) -> None:
    """Write a line at once, so that those of several ranks do not mix."""
    sys.stderr.write(f"[hora] {text}\n")


def is_news_of_peer(error: BaseException) -> bool:
    """Say whether the session told this rank why it failed elsewhere."""
    return isinstance(error, HorovodInternalError) and _core.failed_elsewhere()


def place_of(where: TracebackType | None) -> str:
    """Return the line of the script that was running."""
    frames = traceback.extract_tb(where)
    return f" ({frames[0].filename}:{frames[0].lineno})" if frames else ""


process_exit = ProcessExit()

# Before a program looks it up, for `sys.exit(main())` does so before `main` calls init.
if isinstance(sys.exit, BuiltinFunctionType):
    sys.exit = exit_and_tell
