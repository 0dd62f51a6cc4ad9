"""The names and signatures of Horovod's API for Keras, without elastic, and who imports what."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from signatures import signature

hvd = pytest.importorskip("hora.keras", exc_type=ImportError)

NAME = "name=None"
FIRST = f"optimizer, {NAME}, device_dense='', device_sparse='', compression=Compression.none, "
SECOND = "sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average, "
PASSES = "backward_passes_per_step=1, average_aggregated_gradients=False, "
PS = "process_set=global_process_set"

HOROVOD: dict[str, str | None] = {
    "init": "comm=None, process_sets=None",
    **dict.fromkeys(("shutdown", "is_initialized", "size", "rank", "local_size", "local_rank"), ""),
    **dict.fromkeys(("Average", "Sum", "Compression"), None),
    "DistributedOptimizer": f"{FIRST}{SECOND}{PASSES}num_groups=0, groups=None, {PS}, "
    "scale_local_gradients=True",
    "PartialDistributedOptimizer": f"{FIRST}{SECOND}{PASSES}groups=None, {PS}, local_layers=None, "
    "scale_local_gradients=True",
    "broadcast_global_variables": "root_rank",
    "allreduce": f"value, {NAME}, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None, "
    "compression=Compression.none",
    "allgather": f"value, {NAME}",
    "broadcast": f"value, root_rank, {NAME}",
    "reducescatter": f"value, {NAME}, op=Average",
    "load_model": "filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, "
    "legacy_opts=False",
    "ProcessSet": "ranks_or_comm",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
}


@pytest.mark.parametrize("name", HOROVOD)
def test_name_and_signature_are_horovods(name: str) -> None:
    assert name in hvd.__all__
    expected = HOROVOD[name]
    assert expected is None or signature(hvd, name) == expected


def in_python(script: str, backend: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.timeout(240)
def test_scripts_for_horovod_find_it() -> None:
    script = (
        "import hora.compat; hora.compat.install()\n"
        "import horovod.keras, horovod.keras.callbacks, hora.keras.callbacks\n"
        "import horovod.tensorflow.keras as hvd, horovod.tensorflow.keras.callbacks\n"
        "assert set(hora.keras.__all__) <= set(vars(horovod.keras)) & set(vars(hvd))\n"
        "assert hvd.callbacks.MetricAverageCallback is hora.keras.callbacks.MetricAverageCallback\n"
        "assert horovod.keras.callbacks.MetricAverageCallback is hvd.callbacks.MetricAverageCallback\n"
        "hvd.init(); print('size', hvd.size())\n"
    )
    assert "size 1" in in_python(script, "tensorflow")


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("backend", "other"), [("tensorflow", "torch"), ("torch", "tensorflow")])
def test_only_the_backend_in_use_is_imported(backend: str, other: str) -> None:
    pytest.importorskip(backend)
    script = (
        "import sys, keras\n"
        "before = set(sys.modules)\n"
        "import hora.keras as hvd\n"
        f"assert not {{'hora.{backend}', 'hora.{other}'}} & set(sys.modules)\n"
        "hvd.init(); hvd.DistributedOptimizer(keras.optimizers.SGD())\n"
        f"print('hora.{backend}' in sys.modules, {{'hora.{other}', '{other}'}} & set(sys.modules) - before)\n"
    )
    assert "True set()" in in_python(script, backend)


@pytest.mark.timeout(240)
def test_another_backend_is_refused() -> None:
    script = (
        "import keras, hora.keras as hvd\n"
        "keras.backend.backend = lambda: 'jax'\n"
        "hvd.init()\n"
        "try: hvd.DistributedOptimizer(keras.optimizers.SGD())\n"
        "except NotImplementedError as error: print(error)\n"
    )
    assert "not with 'jax'" in in_python(script, "tensorflow")
