"""Every reader of bytes from outside the process, briefly under libFuzzer (`make fuzz` takes longer).

Fuzzing begins with inputs as they should be, which `seeds.cc` makes, so that they are always as the code
writes them, and with `corpus`: a small input for each kind of damage that once was taken for good.
HORA_FUZZ_SECONDS is the time for each target.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "fuzz"
PROGRAMS = BUILD / "tests" / "fuzz"
CORPUS = Path(__file__).parent / "corpus"
TARGETS = (
    "bytes",
    "message",
    "negotiator",
    "settings",
    "wake",
    "values",
    "host",
    "ring",
    "cards",
    "image",
)
SECONDS = float(os.environ.get("HORA_FUZZ_SECONDS", "2"))
LIMITS = (
    "-timeout=10",
    "-rss_limit_mb=2048",
    "-malloc_limit_mb=256",
    "-close_fd_mask=1",
    "-print_final_stats=1",
)


def can_fuzz(folder: Path) -> bool:
    """Whether there is a clang with libFuzzer."""
    if shutil.which("clang++") is None:
        return False
    source = folder / "trial.cc"
    source.write_text('extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }')
    trial = ["clang++", "-fsanitize=fuzzer,address", source, "-o", folder / "trial"]
    return subprocess.run(trial, capture_output=True, timeout=60).returncode == 0


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the fuzzers and return a folder with inputs that are as they should be."""
    folder = tmp_path_factory.mktemp("seeds")
    if not can_fuzz(folder):
        pytest.skip("there is no clang with libFuzzer (Debian: clang libclang-rt-dev)")
    for command in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz"]):
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    subprocess.run([PROGRAMS / "hora_fuzz_seeds", folder], check=True, timeout=20)
    return folder


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS)
def test_no_bytes_do_harm(target: str, seeds: Path) -> None:
    found = BUILD / "found" / target
    found.mkdir(parents=True, exist_ok=True)
    places = [found, CORPUS / target, seeds / target]
    command = [
        PROGRAMS / f"hora_fuzz_{target}",
        f"-max_total_time={SECONDS:.0f}",
        f"-artifact_prefix={BUILD}/{target}-",
        *LIMITS,
        *(place for place in places if place.is_dir()),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS + 60)
    assert ended.returncode == 0, ended.stderr[-5000:]
    inputs = len(list((seeds / target).iterdir()))
    units = ended.stderr.split("stat::number_of_executed_units:")[1].split()[0]
    assert int(units) > inputs
