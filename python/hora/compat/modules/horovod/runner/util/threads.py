"""``horovod.runner.util.threads``: starting functions in threads of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["in_thread", "on_event"]


def in_thread(
    target: Callable[..., object],
    args: Iterable[Any] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Call ``target`` in a new thread, which is returned; ``silent`` drops its exceptions."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {args!r}")

    def call() -> None:
        with contextlib.suppress(Exception) if silent else contextlib.nullcontext():
            target(*args)

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event,
    func: Callable[..., object],
    args: Iterable[Any] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Call ``func`` in a new thread once ``event`` is set, unless ``stop`` is set before."""
    if stop is event:
        raise ValueError("stop must be another event than the one waited for")

    def wait_and_call() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        func(*args)

    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {args!r}")
    return in_thread(wait_and_call, daemon=daemon, silent=silent)
