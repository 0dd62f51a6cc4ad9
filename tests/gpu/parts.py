"""Runs the parts of tests/gpu/run.sh, each under its own time limit, and ends with a table.

A part is a program that prints rows of JSON, the last of which has its outcome. All rows go to rows.jsonl,
what is printed to parts.log and the table to table.txt in the output folder.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from harness import processes  # noqa: E402

BANDWIDTH_BYTES = 1 << 29
BANDWIDTH_TARGET = 0.85
# NCCL refuses two ranks on one GPU unless they seem to be on two hosts, which then talk over sockets. Each
# kernel waits for the others' turn on the GPU, hence few and small ones.
SHARING = {
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_NET_PLUGIN": "none",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0",
    "NCCL_RAS_ENABLE": "0",
    "NCCL_MAX_CTAS": "2",
}
SECOND_TRY = {**SHARING, "NCCL_CUMEM_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0"}


@dataclass
class Outcome:
    """How a part ended."""

    outcome: str
    remark: str
    seconds: float = 0.0
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Machine:
    """What there is, and what was built."""

    build: Path
    package: Path
    output: Path
    stand_ins: bool
    until: float
    """Time of `time.monotonic` at which everything ends."""

    def environment(self, **settings: str) -> dict[str, str]:
        """Return the environment of a program."""
        paths = [str(self.package), str(FOLDER), str(FOLDER.parent)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HORA_", "NCCL_"))}
        made = {**kept, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        if self.stand_ins:
            for setting, name in (("HORA_CUDA_LIBRARY", "cuda"), ("HORA_NCCL_LIBRARY", "nccl")):
                made[setting] = str(self.build / "stand_ins" / f"libhora_fake_{name}.so")
            made["HORA_FAKE_CUDA_SAME_PCI"] = "1"  # as if there were one GPU
        else:
            made |= {"HORA_LOG_LEVEL": "info", "NCCL_DEBUG": "WARN", "HORA_DEVICE_TIMEOUT": "20"}
        return {**made, **settings}


def launcher(ranks: int) -> list[str]:
    """Return what starts so many ranks; one rank needs nothing."""
    if ranks == 1:
        return []
    program = shutil.which("orterun") or "mpirun"
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [program, *as_root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]


def rows_of(text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows among what a program has printed."""
    for line in text.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            if line.startswith("{"):
                yield json.loads(line)


def run_program(
    machine: Machine, command: Sequence[str | Path], limit_s: float, environment: dict[str, str] | None = None
) -> Outcome:
    """Run a program until its end or its limit, and end whatever it has started."""
    start = time.monotonic()
    limit_s = min(limit_s, machine.until - start)
    if limit_s < 3:
        return Outcome("skipped", "the time for the whole run is over")
    mark = uuid.uuid4().hex
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = subprocess.Popen(
            [str(word) for word in command],
            env={**(environment or machine.environment()), processes.MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        processes.end_all(mark)
        process.wait()
        printed.seek(0)
        text = printed.read()
    seconds = time.monotonic() - start
    with (machine.output / "parts.log").open("a") as log:
        log.write(f"--- {' '.join(map(str, command))}\n{text}\n")
    return judge(text, code, limit_s, seconds)


def judge(text: str, code: int | None, limit_s: float, seconds: float) -> Outcome:
    """Return what a program's rows say, or else its exit status."""
    rows = list(rows_of(text))
    ends = [row for row in rows if "outcome" in row]
    end = next((row for row in ends if row["outcome"] == "failed"), ends[-1] if ends else None)
    if end is not None and (code is not None or end["outcome"] == "failed"):
        return Outcome(end["outcome"], end.get("remark", ""), seconds, rows)
    if code is None:
        return Outcome("failed", f"not through after {limit_s:.0f} s", seconds, rows)
    if code == 0:
        return Outcome("passed", rows[-1].get("remark", "") if rows else "", seconds, rows)
    lines = [line for line in text.splitlines() if line.strip()]
    said = next(
        (line for line in reversed(lines) if "Error" in line or "error" in line), lines[-1] if lines else ""
    )
    return Outcome("failed", f"exit status {code}: {said.strip()[:160]}", seconds, rows)


class Parts:
    """The parts, in the order in which they run; what one finds out others need."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.sharing: dict[str, str] | None = None
        """With what several ranks can use the GPU; none until that is known to work."""

    def all(self) -> list[str]:
        return [
            "shared-gpu",
            "collectives-1",
            "packing",
            "packing-sanitizer",
            "packing-bandwidth",
            "collectives-2",
            "optimizer-1",
            "optimizer-2",
            "stopped-rank",
            "graph-capture-1",
            "graph-capture-2",
            "latency-1",
            "latency-1-blocking",
            "latency-2",
            "latency-2-blocking",
            "collectives-4",
        ]

    def run(self, name: str) -> Outcome:
        """Run a part; a number in its name is that of ranks."""
        family, *numbers = name.replace("-blocking", "").rsplit("-", 1)
        if not numbers or not numbers[0].isdigit():
            alone: Callable[[], Outcome] = getattr(self, name.replace("-", "_"))
            return alone()
        ranks = int(numbers[0])
        if name.endswith("-blocking"):
            return self.latency(ranks, HORA_NCCL_BLOCKING="true")
        on_ranks: Callable[[int], Outcome] = getattr(self, family.replace("-", "_"))
        return on_ranks(ranks)

    def program(
        self, name: str, *arguments: str, ranks: int = 1, limit_s: float = 60.0, **settings: str
    ) -> Outcome:
        """Run a program of this folder on so many ranks, which share the GPU."""
        share: list[str] = []
        if ranks > 1:
            if self.sharing is None:
                self.shared_gpu()
            if self.sharing is None:
                return Outcome("skipped", "several ranks cannot use one GPU here")
            share = ["--share"]
            settings = {**self.sharing, **settings}
        command = [*launcher(ranks), sys.executable, str(FOLDER / name), *share, *arguments]
        return run_program(self.machine, command, limit_s, self.machine.environment(**settings))

    def shared_gpu(self) -> Outcome:
        """Find out with what settings ranks can share the GPU; that none do is nobody's fault."""
        refused = run_program(
            self.machine, [*launcher(2), sys.executable, FOLDER / "shared_gpu.py", "--refused"], 40
        )
        tries = []
        for settings in (SHARING, SECOND_TRY):
            self.sharing = settings
            tries.append(self.program("shared_gpu.py", ranks=2, limit_s=35))
            if tries[-1].outcome == "passed":
                break
            self.sharing = None
        rows = refused.rows + [row for each in tries for row in each.rows]
        seconds = refused.seconds + sum(each.seconds for each in tries)
        if refused.outcome == "failed":
            return Outcome("failed", refused.remark, seconds, rows)
        if self.sharing is None:
            return Outcome("skipped", f"not possible here: {tries[-1].remark}", seconds, rows)
        return Outcome("passed", tries[-1].remark, seconds, rows)

    def collectives(self, ranks: int) -> Outcome:
        return self.program("collectives.py", ranks=ranks)

    def optimizer(self, ranks: int) -> Outcome:
        """PyTorch trains on a GPU only; on the CPU it tells whether the program works."""
        if not self.machine.stand_ins:
            return self.program("optimizer.py", ranks=ranks)
        if importlib.util.find_spec("torch") is None:
            return Outcome("skipped", "needs a GPU and PyTorch")
        rehearsal = self.program("optimizer.py", "--device", "cpu", ranks=ranks)
        if rehearsal.outcome == "passed":
            rehearsal.outcome, rehearsal.remark = "skipped", "needs a GPU; passed on the CPU"
        return rehearsal

    def stopped_rank(self) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            return self.program(
                "stopped_rank.py", "--folder", folder, ranks=2, limit_s=45, HORA_DEVICE_TIMEOUT="3"
            )

    def graph_capture(self, ranks: int) -> Outcome:
        return self.program("graph_capture.py", ranks=ranks, limit_s=45)

    def latency(self, ranks: int, **settings: str) -> Outcome:
        repeats = "20" if self.machine.stand_ins else "500"
        return self.program("latency.py", "--repeats", repeats, ranks=ranks, limit_s=40, **settings)

    def pack(self, *arguments: str, before: Sequence[str] = (), limit_s: float = 60.0) -> Outcome:
        program = self.machine.build / "tests" / "gpu" / "hora_gpu_packing"
        if not program.exists():
            return Outcome("skipped", f"{program} was not built")
        return run_program(self.machine, [*before, program, *arguments], limit_s)

    def packing(self) -> Outcome:
        return self.pack("check")

    def packing_sanitizer(self) -> Outcome:
        if self.machine.stand_ins:
            return Outcome("skipped", "needs a GPU")
        sanitizer = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if sanitizer is None:
            return Outcome("skipped", "compute-sanitizer was not found")
        result = self.pack("check", before=(sanitizer, "--error-exitcode", "3"), limit_s=90)
        if "Device not supported" in (self.machine.output / "parts.log").read_text()[-20_000:]:
            return Outcome("skipped", "compute-sanitizer does not support this device", result.seconds)
        return result

    def packing_bandwidth(self) -> Outcome:
        if self.machine.stand_ins:
            result = self.pack("bandwidth", str(1 << 20))
            if result.outcome == "passed":
                result.outcome, result.remark = "skipped", "needs a GPU; the program runs"
            return result
        result = self.pack("bandwidth", str(BANDWIDTH_BYTES))
        if result.outcome == "passed" and result.rows[-1]["least_of_copy"] < BANDWIDTH_TARGET:
            result.outcome = "failed"
            result.remark += f"; the target is {BANDWIDTH_TARGET:.0%}"
        return result


def table(outcomes: dict[str, Outcome]) -> str:
    """Return the table of all parts and a line that counts them."""
    width = max(len(name) for name in outcomes)
    lines = [f"{'PART':{width}} | OUTCOME | SECONDS | REMARK"]
    for name, each in outcomes.items():
        lines.append(f"{name:{width}} | {each.outcome:7} | {each.seconds:7.1f} | {each.remark}")
    counts = [
        sum(each.outcome == which for each in outcomes.values()) for which in ("passed", "failed", "skipped")
    ]
    return "\n".join([*lines, "{} passed, {} failed, {} skipped".format(*counts)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="the build folder")
    parser.add_argument("--package", type=Path, required=True, help="the folder that holds the package hora")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="for all parts together")
    parser.add_argument("--built", type=float, default=0.0, help="how many seconds the build took")
    parser.add_argument("--stand-ins", action="store_true")
    parser.add_argument("--only", help="run this part, or all whose names begin so")
    arguments = parser.parse_args()
    machine = Machine(
        arguments.build.resolve(),
        arguments.package.resolve(),
        arguments.output.resolve(),
        arguments.stand_ins,
        time.monotonic() + arguments.seconds,
    )
    parts = Parts(machine)
    names = [name for name in parts.all() if name.startswith(arguments.only or "")]
    if not names:
        parser.error(f"there is no part {arguments.only}, only {', '.join(parts.all())}")
    outcomes: dict[str, Outcome] = {}
    if arguments.built:
        outcomes["build"] = Outcome("passed", "", arguments.built)
    with (machine.output / "rows.jsonl").open("a") as rows:
        for name in names:
            outcome = outcomes[name] = parts.run(name)
            print(f"{name}: {outcome.outcome} after {outcome.seconds:.1f} s; {outcome.remark}", flush=True)
            for row in outcome.rows:
                rows.write(json.dumps({"part": name, **row}) + "\n")
            rows.flush()
    text = table(outcomes)
    (machine.output / "table.txt").write_text(text + "\n")
    print("\n" + text, flush=True)
    return 1 if any(each.outcome == "failed" for each in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
