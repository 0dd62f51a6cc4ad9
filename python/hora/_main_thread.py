"""Where the main thread is, for other ranks that wait for this one."""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import threading

__all__ = ["main_thread"]

STACK_SIGNAL = signal.SIGRTMIN + 7


@functools.cache
def main_thread() -> tuple[int, int, int] | None:
    """Return the main thread, the signal on which it writes its stack, and the file to which it does.

    Python's fault handler writes it without the interpreter lock, so it answers whatever the program does.
    None if the program uses the signal itself, or no descriptor is left.
    """
    if signal.getsignal(STACK_SIGNAL) != signal.SIG_DFL:
        return None
    try:
        file = os.memfd_create("hora-stack")
    except OSError:
        return None
    faulthandler.register(STACK_SIGNAL, file=file, all_threads=False)
    return threading.main_thread().ident or 0, STACK_SIGNAL, file
