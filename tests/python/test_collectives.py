"""The collectives of both front ends with one rank: results, arguments, views, handles."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from front_end import CASES, INTEGERS, MODULES, make, strides

import hora
import hora.torch as hvd
from hora import HorovodInternalError

both = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
IN_PLACE = {
    "allreduce_": lambda module, tensor: module.allreduce_(tensor, op=hora.Sum),
    "allreduce_async_": lambda module, tensor: module.synchronize(
        module.allreduce_async_(tensor, op=hora.Sum)
    ),
    "broadcast_": lambda module, tensor: module.broadcast_(tensor, 0),
    "broadcast_async_": lambda module, tensor: module.synchronize(module.broadcast_async_(tensor, 0)),
}
OUT_OF_PLACE = {
    "allreduce": lambda module, tensor: module.allreduce(tensor, op=hora.Sum),
    "allgather": lambda module, tensor: module.allgather(tensor),
    "broadcast": lambda module, tensor: module.broadcast(tensor, 0),
}
in_place = pytest.mark.parametrize("call", IN_PLACE)
out_of_place = pytest.mark.parametrize("call", OUT_OF_PLACE)


# Values


@out_of_place
@pytest.mark.parametrize(("module", "dtype"), CASES, ids=str)
def test_every_dtype(module: ModuleType, dtype: str, call: str) -> None:
    tensor = make(module, [[0, 1, 1], [1, 0, 1]], dtype)
    result = OUT_OF_PLACE[call](module, tensor)
    assert result is not tensor
    assert type(result) is type(tensor)
    assert (result.dtype, tuple(result.shape)) == (tensor.dtype, (2, 3))
    assert (result == tensor).all()


@in_place
@pytest.mark.parametrize(("module", "dtype"), CASES, ids=str)
def test_in_place_returns_the_tensor(module: ModuleType, dtype: str, call: str) -> None:
    tensor = make(module, [1, 0, 1], dtype)
    assert IN_PLACE[call](module, tensor) is tensor
    assert (tensor == make(module, [1, 0, 1], dtype)).all()


@both
@pytest.mark.parametrize("op", ["Average", "Sum", "Min", "Max", "Product"])
def test_every_op_and_both_factors(module: ModuleType, op: str) -> None:
    result = module.allreduce(
        make(module, [1.0, -2.0]), op=getattr(module, op), prescale_factor=3, postscale_factor=0.5
    )
    assert result.tolist() == [1.5, -3.0]


@both
def test_ops_have_the_numbers_of_horovod(module: ModuleType) -> None:
    names = ["Average", "Sum", "Adasum", "Min", "Max", "Product"]
    assert [getattr(module, name) for name in names] == [0, 1, 2, 3, 4, 5]


@both
@pytest.mark.parametrize("call", ["allreduce", "broadcast", "allreduce_", "broadcast_"])
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 1, 3)], ids=str)
def test_shapes(module: ModuleType, call: str, shape: tuple[int, ...]) -> None:
    tensor = make(module, np.ones(shape))
    result = (OUT_OF_PLACE | IN_PLACE)[call](module, tensor)
    assert tuple(result.shape) == shape
    assert (result == tensor).all()


@both
def test_allgather_of_no_rows(module: ModuleType) -> None:
    assert tuple(module.allgather(make(module, np.ones((0, 4)))).shape) == (0, 4)


def test_result_of_allgather_is_writable_and_owns_its_memory() -> None:
    array, tensor = hora.allgather(np.ones(3)), hvd.allgather(torch.ones(3))
    gc.collect()
    array += 1
    tensor += 1
    assert array.tolist() == tensor.tolist() == [2, 2, 2]


def test_numpy_scalar_is_a_0d_array() -> None:
    result = hora.allreduce(np.float32(2.5), op=hora.Sum)
    assert (result.shape, result.dtype, float(result)) == ((), np.float32, 2.5)


# Views


def views(module: ModuleType) -> dict[str, Any]:
    base = make(module, np.arange(24.0).reshape(4, 6))
    return {
        "columns": base[:, ::2],
        "transposed": base.T,
        "rows": base[1:3],
        "every other": base[::2, ::3],
        "0-d": base[1, 2, ...],
    }


@both
@out_of_place
@pytest.mark.parametrize("view", [key for key in views(hora) if key != "0-d"])
def test_views_out_of_place(module: ModuleType, call: str, view: str) -> None:
    tensor = views(module)[view]
    assert (OUT_OF_PLACE[call](module, tensor) == tensor).all()


@both
@in_place
@pytest.mark.parametrize("view", views(hora))
def test_views_in_place_keep_strides_and_get_the_result(module: ModuleType, call: str, view: str) -> None:
    tensor = views(module)[view]
    before = (strides(tensor), tensor.tolist())
    assert IN_PLACE[call](module, tensor) is tensor
    assert (strides(tensor), tensor.tolist()) == before


@both
def test_result_lands_in_the_view_and_nowhere_else(module: ModuleType) -> None:
    base = make(module, [[1, 2, 3, 4]])
    module.allreduce_(base[:, ::2], op=module.Sum, prescale_factor=10)
    assert base.tolist() == [[10, 2, 30, 4]]


def test_channels_last() -> None:
    tensor = torch.arange(48.0).view(1, 3, 4, 4).to(memory_format=torch.channels_last)
    expected = tensor * 2
    hvd.allreduce_(tensor, op=hvd.Sum, prescale_factor=2)
    assert torch.equal(tensor, expected)
    assert tensor.is_contiguous(memory_format=torch.channels_last)


def test_negated_view() -> None:
    view = torch.tensor([1 + 2j]).conj().imag
    assert view.is_neg()
    assert hvd.allreduce(view, op=hvd.Sum).tolist() == [-2.0]


def test_unaligned_array() -> None:
    record = np.zeros(3, dtype=[("flag", "i1"), ("value", "f8")])
    record["value"] = [1, 2, 3]
    hora.allreduce_(record["value"], op=hora.Sum, prescale_factor=2)
    assert record["value"].tolist() == [2, 4, 6]


@in_place
def test_memory_that_cannot_be_written_is_refused(call: str) -> None:
    with pytest.raises(ValueError, match="share memory"):
        IN_PLACE[call](hvd, torch.ones(1).expand(3))
    read_only = np.ones(3)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        IN_PLACE[call](hora, read_only)
    with pytest.raises(ValueError, match="read-only"):
        IN_PLACE[call](hora, np.float32(1))


def test_expanded_tensor_out_of_place() -> None:
    assert hvd.allreduce(torch.ones(1).expand(3), op=hvd.Sum).tolist() == [1, 1, 1]


def test_parameter_in_place() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 2).t())
    view = torch.nn.Parameter(torch.ones(2, 3).t())
    for leaf in (parameter, view):
        hvd.allreduce_(leaf, op=hvd.Sum, prescale_factor=2)
        assert (leaf == 2).all()


# Arguments


@both
@pytest.mark.parametrize("call", OUT_OF_PLACE | IN_PLACE)
@pytest.mark.parametrize("value", [1.0, [1.0], None, "text"], ids=repr)
def test_other_than_tensors_are_refused(module: ModuleType, call: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{call.strip('_').removesuffix('_async')}: expected a"):
        (OUT_OF_PLACE | IN_PLACE)[call](module, value)


def test_frameworks_do_not_mix() -> None:
    with pytest.raises(TypeError):
        hora.allreduce(torch.ones(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hvd.allreduce(np.ones(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("call", OUT_OF_PLACE | IN_PLACE)
def test_unsupported_dtypes_are_refused(call: str) -> None:
    function = (OUT_OF_PLACE | IN_PLACE)[call]
    with pytest.raises(ValueError, match="complex64"):
        function(hora, np.ones(2, np.complex64))
    with pytest.raises(ValueError, match="complex64"):
        function(hvd, torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match=">f4"):
        function(hora, np.ones(2, ">f4"))
    with pytest.raises(ValueError, match="sparse"):
        function(hvd, torch.eye(2).to_sparse())
    with pytest.raises(ValueError, match="meta"):
        function(hvd, torch.ones(2, device="meta"))


@both
@pytest.mark.parametrize("op", [6, -1, 2.0, "Sum"], ids=repr)
def test_unknown_op_is_refused(module: ModuleType, op: Any) -> None:
    with pytest.raises(ValueError, match="allreduce 'x': op must be"):
        module.allreduce(make(module, [1.0]), name="x", op=op)


@both
def test_adasum_is_for_floating_point_numbers(module: ModuleType) -> None:
    assert module.allreduce(make(module, [1.5, -2.0]), op=module.Adasum).tolist() == [1.5, -2.0]
    with pytest.raises(ValueError, match="Adasum is defined for floating-point numbers, not for int64"):
        module.allreduce(make(module, [1], "int64"), op=module.Adasum)


@both
def test_average_is_deprecated_but_works(module: ModuleType) -> None:
    for call in (module.allreduce, module.allreduce_):
        with pytest.warns(DeprecationWarning, match="average"):
            assert call(make(module, [2.0]), average=False).tolist() == [2.0]
        with pytest.raises(ValueError, match="only one"):
            call(make(module, [2.0]), average=True, op=module.Sum)


@both
def test_bool_has_no_average(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="bool"):
        module.allreduce(make(module, [1], "bool"))
    with pytest.raises(ValueError, match="bool"):
        module.allreduce(make(module, [1], "bool"), op=module.Sum, prescale_factor=2)
    assert module.allreduce(make(module, [1, 0], "bool"), op=module.Sum).tolist() == [True, False]


@both
@pytest.mark.parametrize("root", [-1, 1, 1000])
def test_root_that_is_no_rank_is_refused(module: ModuleType, root: int) -> None:
    with pytest.raises(ValueError, match="root_rank"):
        module.broadcast(make(module, [1.0]), root)


@both
@pytest.mark.parametrize("argument", [{"name": 5}, {"process_set": 1}, {"process_set": "x"}], ids=str)
def test_bad_name_and_process_set_are_refused(module: ModuleType, argument: dict[str, Any]) -> None:
    tensor = make(module, [1.0])
    for call in (module.allreduce, module.allgather, lambda *args, **kw: module.broadcast(*args, 0, **kw)):
        with pytest.raises((TypeError, ValueError), match=next(iter(argument))):
            call(tensor, **argument)


@both
def test_global_process_set_is_accepted(module: ModuleType) -> None:
    module.barrier(process_set=module.global_process_set)
    tensor = make(module, [1.0])
    assert module.allreduce(tensor, process_set=module.global_process_set).tolist() == [1.0]
    assert module.allreduce(tensor, process_set=None).tolist() == [1.0]
    assert (module.global_process_set.process_set_id, module.global_process_set.size()) == (0, 1)


@both
def test_scalar_allgather_is_refused(module: ModuleType) -> None:
    with pytest.raises(HorovodInternalError):
        module.allgather(make(module, 1.0))


@both
@pytest.mark.parametrize("dtype", INTEGERS)
def test_average_of_integers_keeps_the_dtype(module: ModuleType, dtype: str) -> None:
    tensor = make(module, [3, 4], dtype)
    result = module.allreduce(tensor)
    assert result.dtype == tensor.dtype
    assert result.tolist() == [3, 4]


# Handles


@both
def test_handle_can_be_synchronized_once(module: ModuleType) -> None:
    handle = module.allreduce_async(make(module, [1], "int64"), op=module.Average)
    while not module.poll(handle):
        pass
    assert module.synchronize(handle).tolist() == [1]
    with pytest.raises(ValueError, match="before"):
        module.synchronize(handle)
    assert module.poll(handle)


@both
@pytest.mark.parametrize("value", [7, None, "handle"], ids=repr)
def test_what_is_no_handle_is_refused(module: ModuleType, value: Any) -> None:
    for call in (module.poll, module.synchronize):
        with pytest.raises(ValueError, match="not a handle"):
            call(value)


@both
def test_name_is_in_use_until_synchronized_or_polled(module: ModuleType) -> None:
    first = module.allreduce_async(make(module, [1.0]), name="x")
    with pytest.raises(ValueError, match="x"):
        module.allreduce_async(make(module, [1.0, 2.0]), name="x")
    assert module.synchronize(first).tolist() == [1.0]
    second = module.allgather_async(make(module, [1.0]), name="x")
    while not module.poll(second):
        pass
    assert module.broadcast(make(module, [3.0]), 0, name="x").tolist() == [3.0]


@both
def test_refused_call_leaves_the_name_free(module: ModuleType) -> None:
    with pytest.raises(ValueError):
        module.allreduce(make(module, [1.0]), name="x", op=9)
    assert module.allreduce(make(module, [1.0]), name="x").tolist() == [1.0]


@both
def test_memory_lives_as_long_as_the_handle(module: ModuleType) -> None:
    for turn in range(5):
        handle = module.allreduce_async(make(module, np.full(1000, turn)), name="reused", op=module.Sum)
        gc.collect()
        make(module, np.full(1000, -1))
        assert (module.synchronize(handle) == turn).all()


@both
def test_dropped_handles_are_harmless(module: ModuleType) -> None:
    for turn in range(200):
        module.allreduce_async(make(module, np.ones(100)), name=f"dropped.{turn}")
        module.allgather_async(make(module, np.ones(100)))
    gc.collect()
    module.barrier()


# Gradients


@pytest.mark.parametrize(
    ("function", "factor"),
    [
        (lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=2, postscale_factor=3), 6),
        (lambda x: hvd.allreduce(x), 1),
        (lambda x: hvd.allreduce(x, compression=hvd.Compression.fp16), 1),
        (lambda x: hvd.allgather(x), 1),
        (lambda x: hvd.broadcast(x, 0), 1),
    ],
)
def test_blocking_forms_are_differentiable(function: Any, factor: float) -> None:
    tensor = torch.tensor([[1.0, 2.0]], requires_grad=True)
    function(tensor).square().sum().backward()
    assert tensor.grad is not None
    assert tensor.grad.tolist() == [[2 * factor**2 * 1.0, 2 * factor**2 * 2.0]]


def test_second_derivative() -> None:
    tensor = torch.tensor([3.0], requires_grad=True)
    (first,) = torch.autograd.grad(hvd.allreduce(tensor, op=hvd.Sum).pow(3).sum(), tensor, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), tensor)
    assert second.tolist() == [18.0]


def test_max_has_no_gradient() -> None:
    tensor = torch.ones(2, requires_grad=True)
    result = hvd.allreduce(tensor, op=hvd.Max)
    with pytest.raises(NotImplementedError, match="gradient"):
        result.sum().backward()


def test_nothing_is_recorded_where_nothing_should_be() -> None:
    tensor = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not hvd.allreduce(tensor).requires_grad
    assert not hvd.synchronize(hvd.allreduce_async(tensor)).requires_grad
    assert not hvd.allgather(torch.ones(2)).requires_grad
