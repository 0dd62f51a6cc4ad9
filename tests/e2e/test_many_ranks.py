"""Many more ranks than cores."""

from __future__ import annotations

import pytest
from harness.mpirun import run_script

PROGRAM = """
import os, sys
import numpy
import hora

hora.init()
rank, size = hora.rank(), hora.size()
hosts = hora.cross_size()

def total(values, **arguments):
    return hora.allreduce(numpy.asarray(values, numpy.float64), op=hora.Sum, **arguments)

everyone = numpy.arange(size)
for length in (1, 7, size, 1000, 100_003):
    assert (total(numpy.full(length, rank + 1)) == size * (size + 1) / 2).all()
handles = [hora.allreduce_async(numpy.full(3, float(rank)), name=f"t{n}", op=hora.Max) for n in range(50)]
assert all((hora.synchronize(handle) == size - 1).all() for handle in handles)
assert (hora.broadcast(numpy.full(5, rank), size - 1) == size - 1).all()
assert (hora.allgather(numpy.full(rank % 3, rank)) == numpy.repeat(everyone, everyone % 3)).all()
received, splits = hora.alltoall(numpy.arange(size), numpy.ones(size, numpy.int32))
assert (received == rank).all() and splits.tolist() == [1] * size
assert (hora.reducescatter(numpy.ones((size, 2)), op=hora.Sum) == size).all()
evens = hora.add_process_set(range(0, size, 2))
if evens.included():
    assert total([1.0], process_set=evens)[0] == len(evens.ranks)
try:
    hora.allreduce(numpy.ones(2 + (rank == size - 2)), name="differs")
except hora.HorovodInternalError as error:
    assert f"\\n  {size - 2} " in str(error), error
else:
    raise AssertionError("a mismatch was not told")
assert hora.join() in range(size)
hora.barrier()
sys.stdout.write("all right\\n")
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("ranks", "split"), [(16, ""), (32, ""), (32, ",".join(["4"] * 8))], ids=["16", "32", "32 on 8 hosts"]
)
def test_everything_works(ranks: int, split: str) -> None:
    ending = run_script(PROGRAM, ranks, 120, environment={"HORA_HOST_SPLIT": split})
    print(f"{ending.seconds:.1f} s")
    assert ending.code == 0, ending.output
    assert ending.output.count("all right") == ranks
    assert ending.left == []
