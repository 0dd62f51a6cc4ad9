"""Scripts written for Horovod run unchanged through ``python -m hora.compat``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness.mpirun import Ending, mpirun, rank_environment, run_script

pytest.importorskip("torch")

TRAINING = """
import argparse, sys
import torch
import horovod.torch as hvd
from horovod.torch.mpi_ops import synchronize, allreduce_async
from horovod.common.exceptions import HorovodInternalError
from neighbour import rows

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
args = parser.parse_args()
hvd.init()
torch.manual_seed(42 + hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.5)
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=hvd.Compression.fp16,
    op=hvd.Average,
    gradient_predivide_factor=2.0,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
for step in range(5):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(rows, 4)), torch.ones(rows, 1)).backward()
    optimizer.step()
total = synchronize(allreduce_async(torch.ones(1), op=hvd.Sum, name="total"))
weights = hvd.allgather_object(model[0].weight.tolist())
assert all(each == weights[0] for each in weights)
# One write, which the lines of other ranks cannot get into.
sys.stdout.write(f"module {__name__} ranks {int(total)} arguments {sys.argv[1:]}\\n")
"""


def run(
    arguments: list[str], folder: Path, ranks: int = 2, path: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = rank_environment(PYTHONUNBUFFERED="1")
    if path:
        environment["PYTHONPATH"] = f"{path}:{environment.get('PYTHONPATH', '')}"
    command = [*mpirun(ranks), sys.executable, "-m", "hora.compat", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, timeout=100, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "project"
    package.mkdir()
    (package / "train.py").write_text(TRAINING)
    (package / "neighbour.py").write_text("rows = 3\n")
    return package


@pytest.mark.timeout(120)
def test_a_script_with_arguments(folder: Path) -> None:
    ended = run([str(folder / "train.py"), "--lr", "0.1"], folder.parent)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("module __main__ ranks 2 arguments ['--lr', '0.1']") == 2


@pytest.mark.timeout(120)
def test_a_module(folder: Path) -> None:
    ended = run(["-m", "train", "--lr", "0.1"], folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("module __main__ ranks 2 arguments ['--lr', '0.1']") == 2


@pytest.mark.timeout(120)
def test_an_error_of_the_script_fails_the_job(folder: Path) -> None:
    (folder / "train.py").write_text("import horovod.torch\nraise KeyError('mine')\n")
    ended = run([str(folder / "train.py")], folder, ranks=1)
    assert ended.returncode != 0
    assert "KeyError: 'mine'" in ended.stderr


@pytest.mark.timeout(120)
def test_spawned_processes_find_the_modules(folder: Path) -> None:
    script = """
import multiprocessing

def child(queue):
    import horovod.torch
    queue.put(horovod.torch.__name__)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print("child has", queue.get(timeout=60))
    process.join()
"""
    (folder / "train.py").write_text(script)
    ended = run([str(folder / "train.py")], folder, ranks=1)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "child has horovod.torch" in ended.stdout


@pytest.mark.timeout(120)
@pytest.mark.parametrize("replace", [False, True])
def test_an_installed_horovod_is_hidden_on_request_only(replace: bool, folder: Path) -> None:
    real = folder / "site" / "horovod"
    real.mkdir(parents=True)
    (real / "__init__.py").write_text("")
    (folder / "train.py").write_text("import horovod.torch\nprint('found', horovod.torch.__file__)\n")
    options = ["--replace"] if replace else []
    ended = run([*options, str(folder / "train.py")], folder, ranks=1, path=str(folder / "site"))
    assert (ended.returncode == 0) == replace, ended.stdout + ended.stderr
    if replace:
        assert "compat/modules/horovod/torch" in ended.stdout
    else:
        assert str(real) in ended.stderr
        assert "--replace" in ended.stderr


STATE = """
import torch
import horovod.torch as hvd
from horovod.torch.functions import broadcast_optimizer_state

assert hvd.broadcast_optimizer_state is broadcast_optimizer_state
hvd.init()

def gradients(make, *modules, model=None):
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimizer = hvd.DistributedOptimizer(make(parameters))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    assert not optimizer.state
    return [None if each.grad is None else each.grad.abs().sum().item() for each in parameters]

def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1)

torch.manual_seed(1)
layer, frozen = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).requires_grad_(False)
before = [parameter.clone() for parameter in layer.parameters()]
assert gradients(sgd, layer, frozen) == [0.0, 0.0, None, None]
assert all(map(torch.equal, before, layer.parameters()))
table = torch.nn.Embedding(3, 2, sparse=True)
assert gradients(sgd, table, torch.nn.Linear(2, 1), model=table) == [None, 0.0, 0.0]
assert gradients(lambda parameters: torch.optim.SparseAdam(parameters), table) == [None]

optimizer = hvd.DistributedOptimizer(sgd(layer.parameters()))
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
optimizer.zero_grad()
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
assert layer.weight.grad is None
print("done", flush=True)
"""


@pytest.mark.timeout(120)
def test_an_optimizer_without_state_gets_gradients_of_zero(folder: Path) -> None:
    (folder / "train.py").write_text(STATE)
    ended = run([str(folder / "train.py")], folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("done") == 2


def in_python(script: str) -> Ending:
    return run_script(script, 0, 60)


@pytest.mark.timeout(120)
def test_installing_from_code() -> None:
    ended = in_python(
        "import hora.compat; hora.compat.install(); hora.compat.install()\n"
        "import horovod, horovod.torch as hvd, horovod.torch.mpi_ops, hora.torch\n"
        "from horovod.common.exceptions import HorovodInternalError\n"
        "from horovod.common.process_sets import global_process_set\n"
        "assert HorovodInternalError is hora.HorovodInternalError is hvd.HorovodInternalError\n"
        "assert set(hora.torch.__all__) <= set(vars(hvd)), set(hora.torch.__all__) - set(vars(hvd))\n"
        "assert hvd.DistributedOptimizer is hora.torch.DistributedOptimizer\n"
        "hora.compat.install(); print('version', horovod.__version__)\n"
    )
    assert ended.code == 0, ended.output
    assert "version 0.28.1" in ended.output


@pytest.mark.timeout(120)
def test_importing_the_package_does_not_import_a_framework() -> None:
    ended = in_python(
        "import sys, hora.compat; hora.compat.install()\n"
        "import horovod.common.util, horovod.runner.util.threads\n"
        "assert 'torch' not in sys.modules\n"
    )
    assert ended.code == 0, ended.output


@pytest.mark.timeout(60)
def test_wrong_usage_is_explained(tmp_path: Path) -> None:
    for arguments, code in (([], 2), (["--unknown"], 2), (["-m"], 2), (["--help"], 0), (["nowhere.py"], 1)):
        command = [sys.executable, "-m", "hora.compat", *arguments]
        ended = subprocess.run(command, timeout=50, capture_output=True, text=True, check=False)
        assert ended.returncode == code
        assert "hora.compat" in ended.stdout + ended.stderr
