"""The functions that ``hora.compat`` provides under Horovod's module names."""

from __future__ import annotations

import importlib.util
import os
import threading

import pytest

import hora
import hora.compat

hora.compat.install()

from horovod.common import util  # noqa: E402
from horovod.common.exceptions import HorovodVersionMismatchError, HostsUpdatedInterrupt  # noqa: E402
from horovod.runner.util.threads import in_thread, on_event  # noqa: E402


def test_availability_agrees_with_imports() -> None:
    assert util.extension_available("torch")
    assert util.extension_available("tensorflow") == (importlib.util.find_spec("tensorflow") is not None)
    assert not util.extension_available("mxnet")
    assert util.mpi_built() == hora.mpi_built()
    assert util.nccl_built() == hora.nccl_built()
    assert not util.gloo_built(verbose=True)


def test_extension_is_a_file() -> None:
    path = util.get_extension_full_path("anything", "mpi_lib")
    assert os.path.exists(path)
    assert path.endswith(util.get_ext_suffix())
    assert util.get_ext_suffix().endswith(".so")


def test_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_TEST_A", "1")
    monkeypatch.delenv("HORA_TEST_B", raising=False)
    with pytest.raises(KeyError), util.env(HORA_TEST_A=None, HORA_TEST_B="2"):
        assert "HORA_TEST_A" not in os.environ
        assert os.environ["HORA_TEST_B"] == "2"
        raise KeyError
    assert os.environ["HORA_TEST_A"] == "1"
    assert "HORA_TEST_B" not in os.environ


@pytest.mark.parametrize(
    ("length", "parts", "lengths"), [(10, 3, [4, 3, 3]), (6, 3, [2, 2, 2]), (2, 3, [1, 1, 0]), (0, 2, [0, 0])]
)
def test_lists_are_split_evenly(length: int, parts: int, lengths: list[int]) -> None:
    split = util.split_list(list(range(length)), parts)
    assert [len(part) for part in split] == lengths
    assert [item for part in split for item in part] == list(range(length))


def test_small_questions() -> None:
    assert [number for number in range(10) if util.num_rank_is_power_2(number)] == [1, 2, 4, 8]
    assert util.is_iterable([])
    assert not util.is_iterable(1)
    assert util.is_version_greater_equal_than("2.10.0", "2.9.1")
    assert util.is_version_greater_equal_than("2.9.1+cpu", "2.9.1")
    assert not util.is_version_greater_equal_than("1.13.1", "2.0.0")
    with pytest.raises(ValueError):
        util.is_version_greater_equal_than("2.0", "2.0.0")


def test_cached_functions_are_called_once() -> None:
    calls: list[int] = []

    @util._cache
    def double(value: int) -> int:
        calls.append(value)
        return 2 * value

    assert [double(1), double(1), double(2)] == [2, 2, 4]
    assert calls == [1, 2]


def test_exceptions_have_their_classes() -> None:
    assert issubclass(HostsUpdatedInterrupt, RuntimeError)
    assert HostsUpdatedInterrupt(skip_sync=True).skip_sync
    assert issubclass(HorovodVersionMismatchError, ImportError)
    assert "torch" in str(HorovodVersionMismatchError("torch", "1", "2"))


def test_functions_run_in_threads() -> None:
    seen: list[int] = []
    in_thread(seen.append, (1,)).join(10)
    in_thread(lambda: 1 / 0, silent=True).join(10)
    event, stop = threading.Event(), threading.Event()
    on_time = on_event(event, seen.append, (2,))
    stopped = on_event(threading.Event(), seen.append, (3,), stop=stop, check_stop_interval_s=0.01)
    stop.set()
    stopped.join(10)
    event.set()
    on_time.join(10)
    assert seen == [1, 2]
    with pytest.raises(ValueError):
        in_thread(print, ["text"])
