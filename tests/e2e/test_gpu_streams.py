"""The program's streams and Hora's: what comes first, and what never waits."""

from __future__ import annotations

import pytest
from harness.gpu_programs import run

# What the caller's stream was given before is part of the result


@pytest.mark.parametrize("seed", ["0", "7"])
def test_work_on_the_current_stream_comes_first(seed: str) -> None:
    """A long chain of copies is under way when the call is made."""
    program = """
hora.init()

def new_stream():
    stream = ctypes.c_void_p()
    with driver():
        driver().call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
    return stream

def reduce_behind_copies(number, synchronized):
    values = numpy.random.default_rng([rank, number]).random(500, "float32")
    first, chain = on_device(values, "float32"), [DeviceArray((500,), "float32") for _ in range(8)]
    for source, target in zip([first, *chain], chain):
        driver().copy(target.data_ptr(), source.data_ptr(), target.nbytes)
    if synchronized:
        driver().synchronize()
    if number % 2:
        return hvd.allreduce(chain[-1], op=hvd.Sum).numpy()
    handle = hvd.allreduce_async_(chain[-1], op=hvd.Sum)
    return hvd.synchronize(handle).numpy()

side, default = new_stream(), ctypes.c_void_p(0)
for number in range(50):
    driver().stream = default if number % 3 == 0 else side if number % 3 == 1 else new_stream()
    at_once = reduce_behind_copies(number, synchronized=False)
    sources = [numpy.random.default_rng([peer, number]).random(500, "float32") for peer in range(size)]
    numpy.testing.assert_array_equal(at_once, reduce_behind_copies(number, synchronized=True))
    numpy.testing.assert_allclose(at_once, sum(sources), rtol=1e-6)

# Several streams in one batch, each with its own chain.
streams = [new_stream() for _ in range(4)]
for number in range(10):
    arrays, handles = [], []
    for n, stream in enumerate(streams):
        driver().stream = stream
        first, last = on_device([rank + n + number], "float32"), DeviceArray((1,), "float32")
        driver().copy(last.data_ptr(), first.data_ptr(), 4)
        arrays.append((first, last))
        handles.append(hvd.allreduce_async_(last, name=f"several.{n}", op=hvd.Sum))
    driver().stream = side
    for n, handle in enumerate(handles):
        assert hvd.synchronize(handle).numpy() == [1 + 2 * (n + number)]
say("right")
"""
    ending = run(program, HORA_FAKE_CUDA_DELAY_US="200", HORA_FAKE_CUDA_SEED=seed)
    assert ending.code == 0
    assert ending.output.count("right") == 2


# The host never waits for the device


def test_steady_state_neither_synchronizes_nor_allocates() -> None:
    program = """
hora.init()
cuda = driver().library
cuda.fake_cuda_counts.restype = counted(
    "allocations frees live_bytes events_created events_destroyed streams_created streams_destroyed kernels "
    "copies host_functions synchronizations fills calls_from_host_functions"
)
STILL = "allocations frees synchronizations events_destroyed streams_created".split()

def counts():
    found = cuda.fake_cuda_counts()
    return {name: getattr(found, name) for name, _ in found._fields_}

arrays = [on_device(numpy.ones(100 * n), "float32") for n in range(1, 11)]
rows = on_device(numpy.ones((4 * size, 3)), "float32")

def step():
    handles = [hvd.allreduce_async_(array, name=f"step.{n}") for n, array in enumerate(arrays)]
    for handle in handles:
        hvd.synchronize(handle)
    hvd.grouped_allreduce_(arrays, name="group")
    hvd.broadcast_(rows, 0, name="broadcast")
    hvd.allgather(rows, name="gather")
    hvd.alltoall(rows, name="exchange")

for _ in range(20):
    step()
cuda.fake_cuda_drain(5000)
hora.barrier()
before = counts()
for _ in range(50):
    step()
after = counts()
assert after["kernels"] > before["kernels"]
moved = {name: after[name] - before[name] for name in STILL if after[name] != before[name]}
assert not moved, moved
assert after["calls_from_host_functions"] == 0
events = after["events_created"] - before["events_created"]
say(f"steady; {events} events, {after['host_functions'] - before['host_functions']} host functions")
assert events < 200, events
driver().synchronize()
assert (arrays[0].numpy() == 1).all()
"""
    ending = run(program)
    assert ending.code == 0
    assert ending.output.count("steady") == 2
