"""How a process that used hora ends, and what the other ranks learn of it."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import os
import sys
import threading
import traceback
from types import BuiltinFunctionType, TracebackType
from typing import Any, NoReturn

from hora import _core
from hora.errors import HorovodInternalError, NotInitializedError

__all__ = ["process_exit"]


class Exit(SystemExit):
    """What ``sys.exit`` raises. Nothing tells an exit handler the code, but this is deleted just before.

    An exception that somebody catches is deleted while code runs; one that ends the interpreter, when all
    code of the main thread has been left.
    """

    def __del__(self) -> None:
        is_last = sys._getframe().f_back is None and threading.current_thread() is threading.main_thread()
        if is_last and self.code not in (None, 0):
            process_exit.ends_with(self.code)


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
        self._has_heard = False  # that something went wrong on another rank
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
        self._alone, self._has_heard = _core.transport() == "local", False

    def leave(self) -> None:
        """Leave the job; the others learn which exception makes this rank leave, if one does."""
        self._has_heard = _core.failed_elsewhere()
        error, cause = sys.exc_info()[1], ""
        if isinstance(error, SystemExit) and error.code not in (None, 0):
            cause = describe_exit(error.code)
        elif isinstance(error, StopIteration):
            pass  # an ordinary way out of a loop
        elif isinstance(error, Exception) and not self._is_news_of_peer(error):
            cause = f"it was shut down after {describe(error)}"
        _core.shutdown(cause)

    def _is_news_of_peer(self, error: BaseException) -> bool:
        """Say whether the session told this rank why it failed elsewhere."""
        if not isinstance(error, HorovodInternalError) or isinstance(error, NotInitializedError):
            return False
        return self._has_heard or _core.failed_elsewhere()

    def _on_uncaught(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        if not hasattr(sys, "ps1"):  # at a prompt the program goes on
            self._code = 1
        if self._pid == os.getpid() and not self._alone and self._is_news_of_peer(error):
            # The rank that failed prints all of it.
            say(f"this rank ends, too: {kind.__name__}: {error}{place_of(where)}")
            return
        self._reason = describe(error)
        self._print_exception(kind, error, where)

    def ends_with(self, code: Any) -> None:
        """Note the code of an exit that nobody caught."""
        if self._pid != os.getpid():
            return
        self._code = code & 0xFF if isinstance(code, int) else 1
        self._reason = describe_exit(code)
        if not self._alone and isinstance(code, int):  # Python prints a text
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
    place = f" rank {_core.rank()}/{_core.size()}" if _core.is_initialized() else ""
    sys.stderr.write(f"[hora{place}] {text}\n")


def describe(error: BaseException) -> str:
    """Return type and text of an exception, as a traceback ends with them."""
    return printable("".join(traceback.format_exception_only(type(error), error)).strip())


def describe_exit(code: object) -> str:
    """Return how a process that ``sys.exit`` ends is described."""
    return f"it ended with exit code {code}" if isinstance(code, int) else printable(f"it ended with: {code}")


def printable(text: str) -> str:
    """Return text without what UTF-8 cannot hold, such as bytes of a file's name."""
    return text.encode("utf-8", "backslashreplace").decode()


def place_of(where: TracebackType | None) -> str:
    """Return the line of the script that was running."""
    frames = traceback.extract_tb(where)
    return f" ({frames[0].filename}:{frames[0].lineno})" if frames else ""


def is_usual_exit(function: object) -> bool:
    """Say whether this is ``sys.exit`` of Python or what :mod:`site` adds."""
    return function is sys.exit or type(function).__name__ == "Quitter"


process_exit = ProcessExit()

# Before a program looks it up, for `sys.exit(main())` does so before `main` calls init. A script may have
# done so already; `exit` and `quit` are there without an import.
if isinstance(sys.exit, BuiltinFunctionType) and not hasattr(sys, "ps1"):
    for names in (vars(builtins), vars(sys.modules.get("__main__", builtins))):
        names.update({name: exit_and_tell for name in ("exit", "quit") if is_usual_exit(names.get(name))})
    sys.exit = exit_and_tell
