"""Finding and ending every process that a launch started, also those that left its process tree.

Each launch puts a mark of its own into the environment of what it starts; children inherit it, so a walk
through /proc finds them whatever process group, session or parent they have now.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "TEST_LAUNCH_MARK"


def marked(mark: str) -> list[int]:
    """Return the ids of living processes that carry `mark`, without this one."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0") and not is_zombie(int(entry.name)):
                found.append(int(entry.name))
    return sorted(found)


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def end_all(mark: str) -> list[int]:
    """Kill all processes that carry `mark` and return their ids; new ones that appear meanwhile too."""
    ended: list[int] = []
    for _ in range(50):
        living = marked(mark)
        if not living:
            return ended
        for pid in living:
            ended.append(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return ended


def wait_until_gone(mark: str, seconds: float) -> list[int]:
    """Wait until no process carries `mark`; return those that are still there after `seconds`."""
    end = time.monotonic() + seconds
    while (living := marked(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return living
