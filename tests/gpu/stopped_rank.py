"""What happens when a process is stopped in the middle of a collective: the other rank fails and goes on.

Rank 1 puts a function on its stream that stops the process, and behind it an allreduce. Rank 0's GPU then
waits for one that does not come. Run on two ranks with HORA_DEVICE_TIMEOUT.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arrays
import numpy
import report

import hora

ABORT_S = 15.0


def threads() -> list[str]:
    """Return the names of this process's threads."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]


def be_stopped(device: arrays.Arrays, tensor: Any, folder: Path) -> None:
    """Run rank 1: its process stands still until rank 0 wakes it, and then finds the session over."""
    is_launched = threading.Event()

    def stop() -> None:
        is_launched.wait(10)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.5)  # the signal may come to another thread first

    device.call_on_stream(stop)
    try:
        device.hvd.synchronize(device.hvd.allreduce_async_(tensor, name="stuck"))
        is_launched.set()
        for _ in range(1000):
            device.hvd.allreduce_(tensor)
            time.sleep(0.01)
        said = "nothing failed"
    except hora.HorovodInternalError as error:
        said = f"HorovodInternalError: {error}"
    (folder / "said").write_text(said)
    (folder / "said").rename(folder / "rank1")  # whole from the first look on
    os._exit(0)


def wait_until(condition: Callable[[], bool], limit_s: float) -> float | None:
    """Return after how many seconds the condition held, or None."""
    start = time.monotonic()
    while time.monotonic() - start < limit_s:
        if condition():
            return time.monotonic() - start
        time.sleep(0.01)
    return None


def outlive(device: arrays.Arrays, tensor: Any, peer: int, folder: Path, limit_s: float) -> None:
    """Run rank 0: it must fail in time, say where, and give the communicator up."""
    wrong = []
    start = time.monotonic()
    try:
        device.hvd.synchronize(device.hvd.allreduce_async_(tensor, name="stuck"))
        said = "nothing failed"
    except hora.HorovodInternalError as error:
        said = str(error)
    failed_after = time.monotonic() - start
    if "stuck" not in said:
        wrong.append(f"rank 0 was told: {said}")
    if not limit_s - 0.5 <= failed_after <= limit_s + 5:
        wrong.append(f"it failed after {failed_after:.1f} s, the limit is {limit_s:.0f} s")
    aborted_after = wait_until(lambda: "hora-abort" not in threads(), ABORT_S)
    os.kill(peer, signal.SIGCONT)
    wait_until((folder / "rank1").exists, ABORT_S)
    peer_said = (folder / "rank1").read_text() if (folder / "rank1").exists() else "nothing, it still runs"
    if not peer_said.startswith("HorovodInternalError"):
        wrong.append(f"rank 1, woken again: {peer_said}")
    abort = (
        "did not return while the rank was stopped"
        if aborted_after is None
        else f"took {aborted_after:.2f} s"
    )
    report.row(said=said, failed_after_s=failed_after, abort=abort, peer_said=peer_said)
    remark = "; ".join(wrong) or f"failed after {failed_after:.1f} s; the abort {abort}"
    report.row(outcome="failed" if wrong else "passed", remark=remark)
    os._exit(1 if wrong else 0)


def main() -> None:
    parser = arrays.parser(__doc__)
    parser.add_argument(
        "--folder", type=Path, required=True, help="an empty one, through which the ranks talk"
    )
    arguments = parser.parse_args()
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "0":
        os.environ["HORA_WAIT_ON_HOST"] = "true"
    device = arrays.start(arguments)
    peers = hora.allgather_object(os.getpid())
    # The one array of this program: freeing another would wait for a stream that is held up.
    tensor = device.array(numpy.ones(1000), "float32")
    device.hvd.allreduce_(tensor)
    device.synchronize()
    if hora.rank() == 1:
        be_stopped(device, tensor, arguments.folder)
    outlive(device, tensor, peers[1], arguments.folder, float(os.environ["HORA_DEVICE_TIMEOUT"]))


if __name__ == "__main__":
    main()
