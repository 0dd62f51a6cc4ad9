"""Programs on device arrays, over the stand-ins for CUDA's driver and NCCL."""

from __future__ import annotations

import os
from pathlib import Path

from harness.mpirun import Ending, run_to_end

TESTS = Path(__file__).parents[1]
STAND_INS = TESTS.parent / "build" / "dev" / "stand_ins"
# A wait that only its deadline ends takes longer than any program here.
LONG = {"HORA_DEVICE_TIMEOUT": "60"}
SHORT = {"HORA_DEVICE_TIMEOUT": "1"}

PROLOGUE = """
import contextlib, ctypes, gc, os, signal, subprocess, sys, time
import numpy
import hora
import device_arrays
from device_arrays import DeviceArray, DeviceName, driver, make_front_end, on_device
from hora.errors import HorovodInternalError

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
nccl = ctypes.CDLL(str(device_arrays.SETTINGS["HORA_NCCL_LIBRARY"]))
hvd = make_front_end()

def say(text):
    sys.stdout.write(f"{text}\\n")

@contextlib.contextmanager
def fails(within_s, *words, kind=HorovodInternalError):
    '''What goes wrong within it is told soon, and has all the words.'''
    start = time.monotonic()
    try:
        yield
    except kind as error:
        seconds = time.monotonic() - start
        assert seconds < within_s, f"{seconds:.1f} s: {error}"
        assert all(word in str(error) for word in words), error
        say(f"told after {seconds:.2f} s: {error}")
    else:
        raise AssertionError("nothing was told")

def counted(names):
    '''The type of what a stand-in counts.'''
    fields = [(name, ctypes.c_uint64) for name in names.split()]
    return type("Counts", (ctypes.Structure,), {"_fields_": fields})

def keep_memory(array):
    '''Takes the place of freeing it, which waits for the device. PyTorch keeps it, too.'''

def summed(values, **arguments):
    return hvd.allreduce(on_device(values, "float32"), op=hvd.Sum, **arguments).numpy().tolist()

def assert_works():
    assert summed([rank, 1.0]) == [size * (size - 1) / 2, size]
"""


def run(program: str, ranks: int = 2, limit_s: float = 20, **settings: str) -> Ending:
    """Run a program that finds the stand-ins."""
    path = [str(TESTS / "parallel"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        "PYTHONPATH": os.pathsep.join(path),
        "HORA_CUDA_LIBRARY": str(STAND_INS / "libhora_fake_cuda.so"),
        "HORA_NCCL_LIBRARY": str(STAND_INS / "libhora_fake_nccl.so"),
        **settings,
    }
    ending = run_to_end(PROLOGUE + program, ranks, limit_s, environment)
    assert "hora_fake_nccl: " not in ending.output, ending.output
    return ending


def assert_all_told(ending: Ending, ranks: int, within_s: float) -> None:
    """The ranks were told, and ended by themselves."""
    assert ending.output.count("told after") == ranks, ending.output
    assert "Traceback" not in ending.output, ending.output
    assert ending.seconds < within_s, ending.output
