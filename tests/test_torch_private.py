"""Every private name of torch that the library uses still does what it is used for, and no other module uses one."""

from __future__ import annotations

import ast
import gc
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from polyrhythm.core.torch_private import distributed, gradient_sharing, one_process
from polyrhythm.core.torch_private.needed import needed

MODULES = (one_process, distributed, gradient_sharing)
SOURCE = Path(one_process.__file__).parents[2]
TESTED: set[str] = set()


def uses(function: str, name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorator of the test of `function`: whatever fails, the message is that torch has changed its private `name`."""
    TESTED.add(function)

    def decorate(test: Callable[[], None]) -> Callable[[], None]:
        @wraps(test)
        def run() -> None:
            try:
                test()
            except (Exception, AssertionError) as problem:
                pytest.fail(f"torch {torch.__version__} has dropped or changed {name}, which {function} needs: {problem!r}")

        return run

    return decorate


def sgd() -> torch.optim.SGD:
    return torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)


def sparse() -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.tensor([1.0, 2.0]), (2,), check_invariants=False)


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), options: Any = None) -> Any:
        self.calls += 1
        return function(*given, **(options or {}))


@uses("version", "Tensor._version")
def test_writes_are_counted() -> None:
    tensor = torch.zeros(2)
    before = one_process.version(tensor)
    tensor.add_(1)
    assert one_process.version(tensor) == before + 1


@uses("flash_attention_on_cpu", "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu")
def test_attention_on_the_cpu_is_one_operation() -> None:
    query = torch.randn(1, 2, 3, 4)
    found = one_process.flash_attention_on_cpu(query, query, query, 0.0, False)[0]
    torch.testing.assert_close(found, torch.nn.functional.scaled_dot_product_attention(query, query, query))


@uses("sparse_indices", "Tensor._indices")
def test_indices_are_read_of_what_is_not_coalesced() -> None:
    assert one_process.sparse_indices(sparse()).tolist() == [[0, 0]]


@uses("sparse_values", "Tensor._values")
def test_values_are_the_memory_of_a_sparse_tensor() -> None:
    tensor = sparse()
    one_process.sparse_values(tensor).mul_(2)
    assert one_process.sparse_values(tensor).tolist() == [2.0, 4.0]


@uses("add_to_each", "torch._foreach_add_")
def test_a_number_is_added_to_each_tensor() -> None:
    tensors = [torch.zeros(1), torch.ones(2)]
    one_process.add_to_each(tensors, 1.0)
    assert [tensor.tolist() for tensor in tensors] == [[1.0], [2.0, 2.0]]


@uses("mark_stepped", "Optimizer._opt_called")
def test_a_scheduler_does_not_warn_of_an_optimizer_that_is_marked_as_stepped() -> None:
    for marked in (False, True):
        optimizer = sgd()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        if marked:
            one_process.mark_stepped(optimizer)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            scheduler.step()
        assert bool(found) != marked


@uses("mark_wrapped_by_scheduler", "_wrapped_by_lr_sched")
def test_a_scheduler_does_not_warn_of_a_step_that_is_marked_as_wrapped() -> None:
    for marked in (False, True):
        optimizer = sgd()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

        def step(*_: Any) -> None: ...

        if marked:
            one_process.mark_wrapped_by_scheduler(step)
        optimizer.step = step
        one_process.mark_stepped(optimizer)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            scheduler.step()
        assert bool(found) != marked


@uses("spawned_function", "_wrap")
def test_what_spawn_calls_in_a_process_is_found_with_its_arguments() -> None:
    assert list(inspect.signature(distributed.spawned_function()).parameters) == ["fn", "i", "args", "error_file"]


@uses("is_wrapped_by_scheduler", "_wrapped_by_lr_sched")
def test_the_wrapper_of_a_scheduler_is_known() -> None:
    optimizer = sgd()
    assert not one_process.is_wrapped_by_scheduler(optimizer.step)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert one_process.is_wrapped_by_scheduler(optimizer.step)


@uses("take_scale_of_scaler", "_step_supports_amp_scaling")
def test_a_scaler_hands_its_scale_to_a_step_that_takes_it() -> None:
    optimizer, scaler, seen = sgd(), torch.amp.GradScaler("cpu"), list[Any]()
    one_process.take_scale_of_scaler(optimizer)
    optimizer.step = lambda *_, **__: seen.append(optimizer.grad_scale)
    scaler.scale(optimizer.param_groups[0]["params"][0].sum()).backward()
    scaler.step(optimizer)
    assert seen[0] is not None


@uses("step_pre_hooks", "_optimizer_step_pre_hooks and _global_optimizer_pre_hooks")
def test_hooks_before_steps_are_found() -> None:
    optimizer, own, everywhere = sgd(), print, repr
    optimizer.register_step_pre_hook(own)
    handle = register_optimizer_step_pre_hook(everywhere)
    assert one_process.step_pre_hooks(optimizer)[-2:] == (everywhere, own)
    handle.remove()


@uses("step_post_hooks", "_optimizer_step_post_hooks and _global_optimizer_post_hooks")
def test_hooks_after_steps_are_found() -> None:
    optimizer, own, everywhere = sgd(), print, repr
    optimizer.register_step_post_hook(own)
    handle = register_optimizer_step_post_hook(everywhere)
    found = one_process.step_post_hooks(optimizer)
    handle.remove()
    assert found[0] is own
    assert everywhere in found


@uses("backward_pass", "torch._C._current_graph_task_id")
def test_a_backward_pass_has_a_number() -> None:
    found, leaf = list[int](), torch.zeros((), requires_grad=True)
    leaf.register_hook(lambda _: found.append(one_process.backward_pass()))
    for _ in range(2):
        leaf.mul(1).backward()
    assert found[1] == found[0] + 1
    assert one_process.backward_pass() == -1


@uses("take_saved_tensor_hooks", "_top_saved_tensors_default_hooks and _pop_saved_tensors_default_hooks")
def test_hooks_of_saved_tensors_are_taken_off_the_thread() -> None:
    with torch.autograd.graph.saved_tensors_hooks(_fails, _fails):
        taken = one_process.take_saved_tensor_hooks()
        (torch.zeros(2, requires_grad=True) ** 2).sum().backward()
        assert taken == [(_fails, _fails)]
        one_process.put_saved_tensor_hooks(taken)


@uses("put_saved_tensor_hooks", "_push_saved_tensors_default_hooks")
def test_hooks_of_saved_tensors_are_put_back() -> None:
    hooks = [(_same, _same), (_fails, _fails)]
    one_process.put_saved_tensor_hooks(hooks.copy())
    assert one_process.take_saved_tensor_hooks() == hooks


def _fails(_: Any) -> Any:
    raise AssertionError("a hook of another program")


def _same(value: Any) -> Any:
    return value


@uses("has_modes", "_is_any_autocast_enabled, _len_torch_function_stack and _len_torch_dispatch_stack")
def test_modes_of_the_thread_are_seen() -> None:
    assert not one_process.has_modes()
    for mode in (torch.autocast("cpu", torch.bfloat16), torch.device("cpu"), Counting()):
        with mode:
            assert one_process.has_modes()


@uses("dispatch_mode", "_get_current_dispatch_mode")
def test_the_innermost_dispatch_mode_is_found() -> None:
    with Counting(), Counting() as inner:
        assert one_process.dispatch_mode() is inner
    assert one_process.dispatch_mode() is None


@uses("without_dispatch", "torch._C._DisableTorchDispatch")
def test_a_dispatch_mode_does_not_see_what_is_done_without_dispatch() -> None:
    with Counting() as mode:
        with one_process.without_dispatch():
            torch.zeros(2).numpy()
        assert mode.calls == 0
        torch.zeros(2)
        assert mode.calls == 1


@uses("tree_leaves", "torch.utils._pytree.tree_flatten_with_path")
def test_leaves_of_a_nesting_have_their_paths() -> None:
    leaves, _ = one_process.tree_leaves({"a": (1, [2]), "b": 3})
    assert leaves == [("['a'][0]", 1), ("['a'][1][0]", 2), ("['b']", 3)]


@uses("tree_of", "torch.utils._pytree.tree_unflatten")
def test_a_nesting_is_made_again_from_its_leaves() -> None:
    tree = {"a": (1, [2]), "b": 3}
    leaves, structure = one_process.tree_leaves(tree)
    assert one_process.tree_of([leaf for _, leaf in leaves], structure) == tree


@uses("without_numbers", "Tensor._make_wrapper_subclass")
def test_a_tensor_without_numbers_has_a_shape_and_a_type_alone() -> None:
    class Far(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> torch.Tensor:
            called.append(str(func))
            return torch.zeros(())

    called: list[str] = []
    made = one_process.without_numbers(Far, (3,), torch.float64)
    assert (type(made), made.shape, made.dtype) == (Far, (3,), torch.float64)
    torch.neg(made)
    assert called == ["aten.neg.default"]


@uses("no_torch_function", "torch._C._disabled_torch_function_impl")
def test_results_of_a_tensor_without_torch_function_are_plain() -> None:
    class Named(torch.Tensor):
        __torch_function__ = one_process.no_torch_function()

    assert type(torch.zeros(2).as_subclass(Named) + 1) is torch.Tensor


@uses("address_of_storage", "UntypedStorage._cdata")
def test_views_have_the_storage_of_their_tensor() -> None:
    tensor = torch.zeros(4)
    assert one_process.address_of_storage(tensor) == one_process.address_of_storage(tensor[1:])
    assert one_process.address_of_storage(tensor) != one_process.address_of_storage(tensor.clone())


@uses("holders_of_storage", "torch._C._storage_Use_Count")
def test_tensors_that_have_the_same_memory_are_counted() -> None:
    tensor = torch.zeros(4)
    alone = one_process.holders_of_storage(tensor)
    view = tensor[1:]
    assert one_process.holders_of_storage(tensor) == alone + 1 == one_process.holders_of_storage(view)


@uses("break_graph_at", "_torchdynamo_disable")
def test_the_compiler_leaves_a_function_alone() -> None:
    def waiting() -> None: ...

    one_process.break_graph_at(waiting, "it waits")
    disabled = torch.compiler.disable(lambda: None, reason="as torch's own decorator marks it")
    assert vars(waiting).keys() <= vars(disabled).keys()


@uses("take_iterator", "DataLoader._iterator")
def test_the_iterator_of_persistent_processes_is_taken() -> None:
    loader = DataLoader([1, 2], num_workers=1, persistent_workers=True)
    made = iter(loader)
    kept = one_process.take_iterator(loader)
    one_process.end_processes(made)
    assert kept is made
    assert one_process.take_iterator(loader) is None


@uses("end_processes", "_shutdown_workers")
def test_the_processes_of_a_loader_end() -> None:
    iterator: Any = iter(DataLoader([1, 2], num_workers=1))
    one_process.end_processes(iterator)
    assert not any(process.is_alive() for process in iterator._workers)


@uses("batches_given", "_num_yielded")
def test_batches_of_an_iterator_are_counted() -> None:
    iterator = iter(DataLoader([1, 2, 3]))
    next(iterator)
    assert one_process.batches_given(iterator) == 1
    assert one_process.batches_given(iter([])) is None


class Infos(IterableDataset[bool]):
    def __iter__(self) -> Iterator[bool]:
        yield get_worker_info() is None
        with one_process.no_loader():
            yield get_worker_info() is None
        yield get_worker_info() is None


@uses("no_loader", "torch.utils.data._utils.worker._worker_info")
def test_a_process_of_a_loader_is_as_none() -> None:
    assert [batch.item() for batch in DataLoader(Infos(), num_workers=1)] == [False, True, False]


@uses("pinned", "torch.utils.data._utils.pin_memory")
def test_structures_are_kept_when_they_are_pinned() -> None:
    assert one_process.pinned({"a": ("text", [1])}) == {"a": ("text", [1])}


@uses("default_store", "_get_default_store")
def test_the_store_of_the_process_group_is_found() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    distributed.default_store().set("polyrhythm", "here")
    there = distributed.default_store().get("polyrhythm")
    dist.destroy_process_group()
    assert there == b"here"


@uses("store_of", "_world.pg_map")
def test_the_store_of_a_group_is_found() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.new_group([0])
    distributed.store_of(group).set("polyrhythm", "here")
    there = distributed.store_of(group).get("polyrhythm")
    dist.destroy_process_group()
    assert there == b"here"


@uses("NormBase", "_NormBase")
@uses("BatchNorm", "_BatchNorm")
def test_layers_with_statistics_of_batches_have_one_class() -> None:
    assert isinstance(nn.BatchNorm2d(1), one_process.BatchNorm)
    assert isinstance(nn.InstanceNorm1d(1), one_process.NormBase)
    assert not isinstance(nn.LayerNorm(1), one_process.NormBase)


@uses("factor_of", "ReduceOp.__getstate__")
def test_the_factor_of_a_scaled_sum_is_read() -> None:
    assert distributed.factor_of(dist._make_nccl_premul_sum(0.5)) == 0.5


@uses("isolated_threads", "_set_thread_isolation_mode")
@uses("name_only_backend", "FakeProcessGroup")
@uses("set_group_names", "_set_group_name")
@uses("register_group", "_register_pg_in_world")
@uses("groups_made_by", "_new_process_group_helper")
@uses("WorldState", "_World")
def test_a_group_is_made_in_the_place_of_torchs_and_is_known_by_its_names() -> None:
    def make(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        group = dist.ProcessGroup(0, 1)
        group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, distributed.name_only_backend(0, 1))
        group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        distributed.set_group_names(group, "here", "of a test")
        distributed.register_group(group, "gloo", args[4], "here", None)
        return group, args[4]

    class World(distributed.WorldState):
        pg_map, pg_names, pg_group_ranks, pg_backend_config = {}, {}, {}, {}
        tags_to_pg, pg_to_tag, group_count = {}, {}, 0

    with distributed.isolated_threads(), distributed.groups_made_by(lambda own: World(), lambda theirs: make):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert (dist.get_backend(), dist.group.WORLD.group_name, dist.group.WORLD.group_desc) == ("gloo", "here", "of a test")
        with pytest.raises(RuntimeError):
            dist.ProcessGroup.allreduce(dist.group.WORLD, [torch.ones(1)])
        dist.destroy_process_group()
    assert not dist.is_initialized()


@uses("sharding_of", "_get_fsdp_state")
def test_what_fsdp2_was_asked_for_is_known_of_its_module() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        module = fully_shard(nn.Linear(2, 2), mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float64))
        assert distributed.sharding_of(module) == ({torch.float64}, (0,))
        assert distributed.sharding_of(nn.Linear(2, 2)) == (set(), ())
    finally:
        dist.destroy_process_group()


@uses("remove_hook", "_global_forward_hooks_with_kwargs")
def test_nothing_is_left_of_a_hook_of_all_modules() -> None:
    module = torch.nn.modules.module
    handle = register_module_forward_hook(lambda *given: None, with_kwargs=True, always_call=True)
    assert module._has_any_global_hook()
    one_process.remove_hook(handle)
    assert not module._has_any_global_hook()


@uses("communication_hooks", "_comm_hooks")
def test_the_hooks_of_a_model_whose_gradients_are_exchanged_are_known() -> None:
    def halved(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        raise AssertionError("never called")

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        assert distributed.communication_hooks(model) == []
        halved.__annotations__.clear()
        model.register_comm_hook(None, halved)
        assert distributed.communication_hooks(model) == ["halved"]
    finally:
        dist.destroy_process_group()


@uses("module_state", "_rng_tracker")
def test_the_random_tracker_of_dtensor_is_taken_and_put_back() -> None:
    from torch.distributed.tensor import _random

    *hooks, (tracker, handlers) = before = distributed.module_state()
    assert tracker is _random._rng_tracker
    assert distributed.module_state((*hooks, ("other", handlers))) == (*hooks, ("other", handlers))
    assert _random._rng_tracker == "other"  # type: ignore[comparison-overlap]
    distributed.module_state(before)


@uses("module_state", "_custom_op_handlers")
@uses("separate_module_state", "_custom_op_handlers")
def test_the_operations_of_dtensor_are_separated_put_back_and_made_anew() -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import loss, loss_parallel

    dispatcher: Any = DTensor._op_dispatcher
    *hooks, (tracker, handlers) = before = distributed.module_state()
    distributed.separate_module_state()
    with loss_parallel():
        assert len(dispatcher._custom_op_handlers) > len(handlers)
        distributed.module_state((*hooks, (tracker, None)))
        assert dispatcher._custom_op_handlers.keys() == handlers.keys()
        distributed.module_state(before)
        assert dispatcher._custom_op_handlers is handlers
        dispatcher._custom_op_handlers = handlers | dict.fromkeys(loss.customized_loss_ops)  # which it takes out
    distributed.module_state(before)


@uses("separate_module_state", "_global_forward_hooks")
def test_hooks_of_all_modules_and_optimizers_are_separated_and_put_back() -> None:
    calls: list[str] = []

    def run() -> list[str]:
        calls.clear()
        layer = nn.Linear(1, 1)
        layer(torch.ones(1))
        torch.optim.SGD(layer.parameters()).step()
        return calls

    before = distributed.module_state()
    distributed.separate_module_state()
    register_module_forward_hook(lambda module, args, out: calls.append("forward"))
    register_optimizer_step_post_hook(lambda optimizer, args, kwargs: calls.append("step"))
    assert run() == ["forward", "step"]
    distributed.module_state(before)
    assert run() == []


@uses("profiler_called_by", "_prepare_profiler, _enable_profiler, _disable_profiler")
def test_profilers_begin_and_end_with_what_is_put_in_place() -> None:
    called: list[str] = []

    def noted(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda theirs: lambda *args, **kwargs: (called.append(name), theirs(*args, **kwargs))[1]

    names = ["_prepare_profiler", "_enable_profiler", "_disable_profiler"]
    for profiler in (torch.autograd.profiler.profile, torch.profiler.profile):
        called.clear()
        with distributed.profiler_called_by({name: noted(name) for name in names}), profiler() as profile:
            torch.ones(2).sum()
        assert called == names
        assert len(profile.key_averages()) > 0
    with torch.autograd.profiler.profile():
        assert called == names


@uses("waits_of_futures_after", "_C.Future.wait")
def test_a_future_that_torch_makes_can_be_completed_before_somebody_waits_for_it() -> None:
    own: torch.futures.Future[int] = torch.futures.Future()
    both = torch.futures.collect_all([own])

    def complete(done: Callable[[], bool]) -> None:
        assert not done()
        own.set_result(2)

    with distributed.waits_of_futures_after(complete):
        assert [each.wait() for each in both.wait()] == [2]
    assert torch._C.Future.wait is not None


@uses("at_end_of_backward", "Variable._execution_engine.queue_callback")
def test_calls_are_made_at_the_end_of_a_backward_pass() -> None:
    made: list[int] = []
    x = torch.ones(1, requires_grad=True)
    x.register_hook(lambda gradient: one_process.at_end_of_backward(lambda: made.append(1)))
    x.sum().backward()
    assert made == [1]


@uses("wraps_tensors", "is_traceable_wrapper_subclass_type")
@uses("has_shapes_only", "FakeTensor")
def test_classes_of_tensors_are_known() -> None:
    from torch._subclasses import FakeTensor
    from torch.distributed.tensor import DTensor

    assert one_process.wraps_tensors(DTensor)
    assert not one_process.wraps_tensors(torch.Tensor)
    assert one_process.has_shapes_only(FakeTensor)
    assert not one_process.has_shapes_only(torch.Tensor)


@uses("forget_shardings", "debug._clear_sharding_prop_cache")
def test_no_cache_keeps_the_group_of_a_mesh() -> None:
    from torch.distributed.tensor import DTensor, Replicate
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    mesh = torch.distributed.init_device_mesh("cpu", (2,))
    group = weakref.ref(mesh)
    DTensor.from_local(torch.ones(2), mesh, [Replicate()]) + 1
    dist.destroy_process_group()
    del mesh
    distributed.forget_shardings()
    gc.collect()
    assert group() is None


@uses("have_monitored_barriers", "_get_default_group")
def test_monitored_barriers_of_other_groups_than_those_of_gloo_are_called() -> None:
    class Group:
        def monitored_barrier(self, timeout: object, wait_all_ranks: bool) -> None:
            called.append((timeout, wait_all_ranks))

    called: list[object] = []
    c10d = torch.distributed.distributed_c10d
    with pytest.MonkeyPatch.context() as patch:
        for module in (torch.distributed, c10d):
            patch.setattr(module, "monitored_barrier", lambda *given: called.append(given))
        distributed.have_monitored_barriers(Group)
        torch.distributed.monitored_barrier(Group(), 2.0, True)
        c10d.monitored_barrier(of_gloo := object(), None)
    assert called == [(timedelta(seconds=2), True), (of_gloo, None, False)]
    assert inspect.getsource(c10d._get_default_group)


@uses("print_options", "torch._tensor_str.PRINT_OPTS")
def test_the_options_of_printing_are_those_that_were_set() -> None:
    before = one_process.print_options()
    torch.set_printoptions(precision=2)
    assert str(torch.tensor([1 / 3])) == "tensor([0.33])"
    assert one_process.print_options() == {**before, "precision": 2}
    torch.set_printoptions(**before)


@uses("has_hooks", "the dicts of hooks of modules and tensors, and _has_any_global_hook")
def test_hooks_of_modules_of_gradients_and_of_all_modules_are_seen() -> None:
    registered: tuple[Callable[[nn.Linear], Any], ...] = (
        lambda model: model.register_forward_hook(lambda *_: None),
        lambda model: model.register_forward_pre_hook(lambda *_: None),
        lambda model: model.register_full_backward_hook(lambda *_: None),
        lambda model: model.register_full_backward_pre_hook(lambda *_: None),
        lambda model: model.weight.register_hook(lambda *_: None),
        lambda model: model.weight.register_post_accumulate_grad_hook(lambda *_: None),
        lambda model: register_module_forward_hook(lambda *_: None),
    )
    for register in registered:
        model = nn.Linear(1, 1)
        assert not gradient_sharing.has_hooks([model], list(model.parameters()))
        handle = register(model)
        assert gradient_sharing.has_hooks([model], list(model.parameters()))
        handle.remove()


@uses("is_transformed", "torch._C._functorch.is_batchedtensor")
def test_a_tensor_below_vmap_is_seen() -> None:
    seen: list[bool] = []
    torch.func.vmap(lambda x: (seen.append(gradient_sharing.is_transformed(x)), x)[1])(torch.ones(2, 2))
    assert seen == [True]
    assert not gradient_sharing.is_transformed(torch.ones(2))


@uses("is_transforming", "torch._C._functorch.peek_interpreter_stack")
def test_a_transformation_is_seen() -> None:
    seen: list[bool] = []
    torch.func.grad(lambda x: (seen.append(gradient_sharing.is_transforming()), x.sum())[1])(torch.ones(2))
    assert seen == [True]
    assert not gradient_sharing.is_transforming()


@uses("has_saved_tensor_hooks", "torch._C._autograd._top_saved_tensors_default_hooks")
def test_hooks_of_saved_tensors_are_seen() -> None:
    assert not gradient_sharing.has_saved_tensor_hooks()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        assert gradient_sharing.has_saved_tensor_hooks()


@uses("number_of_tensor", "torch.ops.aten._local_scalar_dense")
def test_the_number_of_a_tensor_is_read_by_one_operation() -> None:
    seen: list[object] = []

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Seeing():
        assert torch.ones(()).item() == 1.0
    assert seen[-1] is one_process.number_of_tensor.default


def test_every_function_has_a_test() -> None:
    body = [each for module in MODULES for each in ast.parse(inspect.getsource(module)).body]
    functions = {each.name for each in body if isinstance(each, ast.FunctionDef)}
    names = {each.target.id for each in body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}
    assert {name for name in functions | names if not name.startswith("_")} == TESTED


def test_a_torch_without_one_of_the_names_is_refused_with_its_name() -> None:
    with pytest.raises(ImportError, match=r"has no torch\._C\.no_such_name, which polyrhythm needs"):
        needed(torch._C, "no_such_name")


def test_no_other_module_uses_a_private_name_of_torch() -> None:
    private = {name for module in MODULES for name, _ in private_names(Path(module.__file__ or ""))}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name != "torch_private":
            found = [name for name, of in private_names(path) if of.startswith("torch") or (name in private and of not in ("self", "cls"))]
            assert not found, f"{path.relative_to(SOURCE)} uses {found}: put it into core/torch_private/"


def private_names(path: Path) -> Iterator[tuple[str, str]]:
    """The private attributes that a module uses, and private names that it imports from torch, each with what it is taken of."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield node.attr, ast.unparse(node.value)
        if isinstance(node, ast.Constant) and node.value == "_version":
            yield node.value, "torch"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            yield from ((alias.name, node.module or "") for alias in node.names if alias.name.startswith("_"))
