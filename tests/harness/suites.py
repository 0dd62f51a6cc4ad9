"""The suites of `tests/run.py`: what each runs and how its outcome is read."""

from __future__ import annotations

import ast
import subprocess
import time
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness import processes
from harness.launch import Plan, run_launch
from harness.mpirun import rank_environment
from harness.results import Result, Suite

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "build" / "test-results"
SANITIZED = ("asan", "tsan")
CPP_PRESETS = {"cpp": "dev", **{title: title for title in SANITIZED}}
TITLES = ("cpp", "python", "parallel", "e2e", "docs", "model", "fuzz", *SANITIZED)
LIMITS_S = {
    "cpp": 480.0,
    "python": 180.0,
    "parallel": 240.0,
    "e2e": 1400.0,
    "docs": 180.0,
    "model": 120.0,
    "fuzz": 180.0,
    "asan": 600.0,
    "tsan": 600.0,
}
DEFAULT_LAUNCH = "plain"
LAUNCH = "TEST_LAUNCH"  # the variable that tells ranks the name of their launch


def find_suites(
    only: str | None, keyword: str | None, ranks: int | None
) -> list[tuple[str, Callable[[float], Suite]]]:
    """Return titles of suites, each with a function that runs it until a given time at most."""
    found: list[tuple[str, Callable[[float], Suite]]] = []
    for title in TITLES if only is None else (only,):
        if title in CPP_PRESETS:
            found.append((title, partial(run_cpp, title, keyword)))
        elif title == "parallel":
            plans = [plan for plan in parallel_plans(keyword) if ranks in (None, plan.ranks)]
            found += [(plan.title, pytest_suite(plan, LIMITS_S["parallel"])) for plan in plans]
        elif (ROOT / "tests" / title).is_dir():
            plan = Plan(title, [f"tests/{title}", *keyword_arguments(keyword)])
            found.append((title, pytest_suite(plan, LIMITS_S[title])))
    return found


def pytest_suite(plan: Plan, limit_s: float) -> Callable[[float], Suite]:
    def run(until: float) -> Suite:
        start = time.monotonic()
        results = run_launch(plan, LOGS, min(until, start + limit_s))
        return Suite(plan.title, results, time.monotonic() - start)

    return run


def parallel_plans(keyword: str | None) -> Iterator[Plan]:
    """Yield one launch for each number of ranks and each launch name that the test files ask for.

    A file in `tests/parallel` says with constants ``RANKS = (2, 3)`` and ``LAUNCH = "name"`` how it is run,
    or with ``RANKS = {"name": (2, 3)}`` for several launches. Files with the same launch name share their
    processes, which find it in their environment.
    """
    files: dict[tuple[int, str], list[str]] = {}
    for path in sorted((ROOT / "tests" / "parallel").glob("test_*.py")):
        constants = module_constants(path)
        ranks = constants["RANKS"]
        launches = ranks if isinstance(ranks, dict) else {constants.get("LAUNCH", DEFAULT_LAUNCH): ranks}
        for launch, numbers in launches.items():
            for number in numbers:
                files.setdefault((number, launch), []).append(str(path.relative_to(ROOT)))
    for (ranks, launch), paths in sorted(
        files.items(), key=lambda item: (item[0][1] != DEFAULT_LAUNCH, item[0])
    ):
        title = f"parallel {ranks} ranks" + ("" if launch == DEFAULT_LAUNCH else f" {launch}")
        arguments = [*paths, *keyword_arguments(keyword)]
        yield Plan(title, arguments, ranks, under_mpirun=True, environment={LAUNCH: launch})


def module_constants(path: Path) -> dict[str, Any]:
    """Return the constants that a module assigns at its top, without running it."""
    constants: dict[str, Any] = {}
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in ("RANKS", "LAUNCH"):
                constants[name] = ast.literal_eval(statement.value)
    return constants


def keyword_arguments(keyword: str | None) -> list[str]:
    return [] if keyword is None else ["-k", keyword]


def run_cpp(title: str, keyword: str | None, until: float) -> Suite:
    """Run CTest on a build of the C++ tests, with or without a sanitizer, and read its report."""
    start = time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    report, log = LOGS / f"{title}.xml", LOGS / f"{title}.log"
    report.unlink(missing_ok=True)
    command = ["ctest", "--preset", CPP_PRESETS[title], "--output-junit", str(report)]
    command += [] if title == "cpp" else ["--label-regex", "gate"]
    command += [] if keyword is None else ["-R", keyword, "--no-tests=ignore"]
    mark = uuid.uuid4().hex
    trouble = ""
    with log.open("wb") as output:
        try:
            ended = subprocess.run(
                command,
                cwd=ROOT,
                env=rank_environment(**{processes.MARK: mark}),
                stdout=output,
                stderr=output,
                timeout=min(until - start, LIMITS_S[title]),
            )
            trouble = f"exit code {ended.returncode}" if ended.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            trouble = str(error)
        finally:
            processes.end_all(mark)
    results = read_junit(title, report) if report.exists() else []
    explained = any(result.outcome == "failed" for result in results)
    if not explained and (trouble or not (results or keyword)):
        results.append(Result(title, "failed", f"{trouble}\n{log.read_text(errors='replace')[-3000:]}"))
    return Suite(title, results, time.monotonic() - start)


def read_junit(title: str, report: Path) -> list[Result]:
    results = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{title}: {case.get('name')}"
        status = case.get("status")
        if case.find("failure") is not None or status == "fail":
            results.append(Result(name, "failed", (case.findtext("system-out") or "")[-5000:]))
        else:
            results.append(Result(name, "passed" if status == "run" else "skipped"))
    return results
