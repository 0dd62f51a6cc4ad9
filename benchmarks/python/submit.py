"""Measures what it costs to submit gradients from Python, and where that time goes.

mpirun -np 2 --bind-to none python benchmarks/python/submit.py

Submits 200 tensors in place, by single calls and by one grouped call, and waits for the results between
rounds; only the submission is timed. Frameworks differ in how a tensor is read: PyTorch 2.10 and later
through DLPack's table of C functions, older versions through attributes, NumPy through the buffer protocol.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import hora
import hora.torch as hvd
from hora import _core

TENSORS = 200
SINGLE_TARGET_US = 3.0
GROUP_TARGET_US = 1.0
GROUP_WITH_TABLE_TARGET_US = 0.5


class AttributeTensor(torch.Tensor):
    """Stands for the tensors of a PyTorch without DLPack's table of C functions."""

    __torch_function__ = torch._C._disabled_torch_function_impl


_core.register_tensor_type(
    AttributeTensor,
    {getattr(torch, name): code for name, code in _core.DTYPES.items()},
    use_table=False,
)


def median_us(rounds: int, submit: Callable[[], Any], finish: Callable[[Any], Any]) -> float:
    """Return the median time of ``submit`` per tensor; ``finish`` completes what it returned."""
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        handles = submit()
        times.append((time.perf_counter() - start) * 1e6 / TENSORS)
        finish(handles)
    return statistics.median(times[rounds // 10 :])


def wait_all(handles: list[Any]) -> None:
    for handle in handles:
        hvd.synchronize(handle)


def core_us(rounds: int, tensors: list[torch.Tensor], names: list[str]) -> float:
    """Return the time of the core's part of a single call."""
    op = _core.OPS["allreduce"]
    return median_us(
        rounds,
        lambda: [
            _core.submit_in_place(op, name, tensor, 1, 0, 1.0, 1.0, 0)
            for name, tensor in zip(names, tensors, strict=True)
        ],
        lambda handles: [handle.wait() for handle in handles],
    )


def measure(rounds: int, elements: int) -> dict[str, float]:
    """Return microseconds per tensor."""
    tensors = [torch.ones(elements) for _ in range(TENSORS)]
    plain = [tensor.clone().as_subclass(AttributeTensor) for tensor in tensors]
    arrays = [np.ones(elements, np.float32) for _ in range(TENSORS)]
    names = [f"layer{number}.weight" for number in range(TENSORS)]

    def grouped(name: str, group: list[Any]) -> float:
        return median_us(
            rounds, lambda: hvd.grouped_allreduce_async_(group, name=name, op=hvd.Sum), hvd.synchronize
        )

    return {
        "single": median_us(
            rounds,
            lambda: [
                hvd.allreduce_async_(tensor, name=name, op=hvd.Sum)
                for tensor, name in zip(tensors, names, strict=True)
            ],
            wait_all,
        ),
        "single_core": core_us(rounds, tensors, names),
        "group": grouped("group", tensors),
        "group_attributes": grouped("attributes", plain),
        "group_numpy": median_us(
            rounds,
            lambda: hora.grouped_allreduce_async_(arrays, name="arrays", op=hora.Sum),
            hora.synchronize,
        ),
    }


def show(figures: dict[str, float]) -> None:
    table = Table(title=f"submitting {TENSORS} tensors in place, {hvd.size()} ranks, rank 0")
    for heading in ("what", "us per tensor", "target"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    single, core, group = figures["single"], figures["single_core"], figures["group"]
    for title, value, target in (
        ("single calls", single, f"{SINGLE_TARGET_US}"),
        ("  of it reading the tensor", group, ""),
        ("  of it key, handle and queue of the core", core - group, ""),
        ("  of it Python: arguments and handle", single - core, ""),
        ("one grouped call, DLPack's C table", group, f"{GROUP_WITH_TABLE_TARGET_US}"),
        ("one grouped call, attributes", figures["group_attributes"], f"{GROUP_TARGET_US}"),
        ("one grouped call, NumPy", figures["group_numpy"], f"{GROUP_TARGET_US}"),
    ):
        table.add_row(title, f"{value:.2f}", target)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="default: 100")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--elements", type=int, default=1000, help="of each tensor")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    figures = measure(options.rounds or (10 if options.quick else 100), options.elements)
    if hvd.rank() == 0:
        show(figures)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            ranks = {"ranks": hvd.size(), "tensors": TENSORS}
            options.json.write_text(json.dumps({**ranks, "us_per_tensor": figures}, indent=1) + "\n")
    hvd.shutdown()


if __name__ == "__main__":
    main()
