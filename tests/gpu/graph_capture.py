"""Capturing a CUDA graph that has nothing to do with hora, while hora is busy in this process.

The driver refuses many calls of any thread while a graph is captured, and a refused call spoils the capture.
"""

from __future__ import annotations

import threading
from typing import Any

import arrays
import numpy
import report

import hora

ELEMENTS = 1_000_000


def submit(device: arrays.Arrays, tensors: list[Any], name: str) -> list[Any]:
    return [
        device.hvd.allreduce_async_(each, name=f"{name}.{n}", op=device.hvd.Max)
        for n, each in enumerate(tensors)
    ]


def capture_after_submitting(device: arrays.Arrays, tensors: list[Any], captures: int) -> list[str]:
    """Capture while the engine is at what was submitted just before."""
    for number in range(captures):
        handles = submit(device, tensors, "before")
        try:
            with device.capture():
                pass
        except Exception as error:
            return [f"capture {number}: {error}"]
        for handle in handles:
            device.hvd.synchronize(handle)
    return []


def call_within(device: arrays.Arrays, tensor: Any) -> list[str]:
    """Submit on the stream that captures: that is refused, and the graph goes on."""
    wrong = []
    try:
        with device.capture():
            try:
                device.hvd.allreduce_async_(tensor, name="within")
                wrong.append("a call within a capture was accepted")
            except ValueError as error:
                if "captures a CUDA graph" not in str(error):
                    wrong.append(f"a call within a capture: {error}")
    except Exception as error:
        wrong.append(f"a refused call spoiled the capture: {error}")
    return wrong


class BusyThread:
    """Another thread of the program that uses hora all the time, a number of calls."""

    def __init__(self, device: arrays.Arrays, calls: int) -> None:
        self._device = device
        self._calls = calls
        self.wrong: list[str] = []
        self._is_ready = threading.Event()  # it allocates nothing any more, which a capture would forbid
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> BusyThread:
        self._thread.start()
        self._is_ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._device.own_stream():
                tensor = self._device.array(numpy.ones(1000), "float32")
                self._is_ready.set()
                for number in range(self._calls):
                    handle = self._device.hvd.allreduce_async_(
                        tensor, name=f"busy.{number}", op=self._device.hvd.Max
                    )
                    self._device.hvd.synchronize(handle)
        except Exception as error:
            self.wrong.append(f"the other thread: {error}")


def capture_beside(device: arrays.Arrays, calls: int) -> tuple[list[str], int]:
    """Capture as long as another thread uses hora; return also how often."""
    captures = 0
    with BusyThread(device, calls) as busy:
        try:
            while busy.is_running():
                with device.capture():
                    pass
                captures += 1
        except Exception as error:
            return [f"capture {captures} beside the other thread: {error}"], captures
    return busy.wrong, captures


def main() -> None:
    arguments = arrays.parser(__doc__).parse_args()
    device = arrays.start(arguments)
    count, captures, calls = (4, 4, 10) if arguments.share else (20, 30, 300)
    tensors = [device.array(numpy.full(ELEMENTS, hora.rank()), "float32") for _ in range(count)]
    for handle in submit(device, tensors, "first"):
        device.hvd.synchronize(handle)  # makes the communicator
    device.synchronize()
    wrong = capture_after_submitting(device, tensors, captures)
    report.first_row(what="capture after submitting", captures=captures, wrong=wrong)
    refused = call_within(device, tensors[0])
    report.first_row(what="call within a capture", wrong=refused)
    if device.is_stand_in:
        calls = 0  # its arrays know one stream, which the other thread would put into the graph
    spoiled, beside = capture_beside(device, calls) if calls else ([], 0)
    report.first_row(what="capture beside another thread", captures=beside, calls=calls, wrong=spoiled)
    values = device.values(tensors[-1])
    if not (values == hora.size() - 1).all():
        wrong.append("a result is wrong")
    report.finish(wrong + refused + spoiled, f"{captures + beside + 1} captures, {calls} calls beside them")


if __name__ == "__main__":
    main()
