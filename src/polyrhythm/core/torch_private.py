"""Private names of torch that the library uses, each in one function that says why: torch does not promise to keep them.

Modules of all layers call these. All exist from torch 2.5 on, the oldest that is supported; tests/test_torch_private.py has a test of each,
which fails with a sentence when a new torch has dropped one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import wraps
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.distributed import Store  # type: ignore[attr-defined]
from torch.optim import Optimizer
from torch.optim import optimizer as every
from torch.utils.data import DataLoader


def _needed(module: Any, name: str) -> Any:
    if not hasattr(module, name):
        raise ImportError(f"torch {torch.__version__} has no {module.__name__}.{name}, which polyrhythm needs: install torch 2.13.0.")
    return getattr(module, name)


BatchNorm: Any = _needed(torch.nn.modules.batchnorm, "_BatchNorm")
"""The layers with statistics of batches, of any number of dimensions."""
NormBase: Any = _needed(torch.nn.modules.batchnorm, "_NormBase")
"""These, and those with statistics of instances."""
version: Callable[[Tensor], int] = attrgetter("_version")
"""`Tensor._version`, which counts in-place writes: the only sign that user code has written to a gradient, weight or buffer."""


def sparse_indices(tensor: Tensor) -> Tensor:
    """`Tensor._indices()` of a sparse tensor, also of one that is not coalesced, where `indices()` raises an error."""
    return tensor._indices()


def sparse_values(tensor: Tensor) -> Tensor:
    """`Tensor._values()`, the memory itself: `values()` makes a view that autograd follows, and raises for what is not coalesced."""
    return tensor._values()


def add_to_each(tensors: Sequence[Tensor], value: float) -> None:
    """`torch._foreach_add_`: one call for many small tensors, which public torch has for optimizers only."""
    torch._foreach_add_(list(tensors), value)


def mark_stepped(optimizer: Optimizer) -> None:
    """Set `Optimizer._opt_called`, without which a learning-rate scheduler warns that it was called before any step."""
    optimizer._opt_called = True  # type: ignore[attr-defined]


def mark_wrapped_by_scheduler(step: Callable[..., Any]) -> None:
    """Set `_wrapped_by_lr_sched` of a replaced `step`: learning-rate schedulers warn of one that they have not wrapped."""
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]


def is_wrapped_by_scheduler(step: Any) -> bool:
    """True for the wrapper that a learning-rate scheduler has put around `Optimizer.step`."""
    return bool(getattr(step, "_wrapped_by_lr_sched", False))


def take_scale_of_scaler(optimizer: Optimizer) -> None:
    """Set `_step_supports_amp_scaling`: a GradScaler then hands its scale to step(), which can refuse, and does not skip steps itself."""
    optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]


def step_pre_hooks(optimizer: Optimizer) -> tuple[Callable[..., Any], ...]:
    """The hooks before steps, of all optimizers and of this one: `register_step_pre_hook` stores them, and nothing public reads them."""
    return (*every._global_optimizer_pre_hooks.values(), *optimizer._optimizer_step_pre_hooks.values())


def step_post_hooks(optimizer: Optimizer) -> tuple[Callable[..., Any], ...]:
    """The hooks after steps, of this optimizer and of all: as for `step_pre_hooks`."""
    return (*optimizer._optimizer_step_post_hooks.values(), *every._global_optimizer_post_hooks.values())


backward_pass: Callable[[], int] = _needed(torch._C, "_current_graph_task_id")
"""`_current_graph_task_id`: the number of the backward pass that calls this, -1 outside of any; torch numbers them consecutively."""


def take_saved_tensor_hooks() -> list[tuple[Any, Any]]:
    """Take this thread's default hooks of saved tensors off, the innermost first: programs that share a thread must not have others'."""
    taken = []
    while (hooks := torch._C._autograd._top_saved_tensors_default_hooks(True)) is not None:
        torch._C._autograd._pop_saved_tensors_default_hooks()
        taken.append(hooks)
    return taken


def put_saved_tensor_hooks(taken: list[tuple[Any, Any]]) -> None:
    """Put the hooks back that were taken off, and empty the list."""
    while taken:
        torch._C._autograd._push_saved_tensors_default_hooks(*taken.pop())


def has_modes() -> bool:
    """True if the thread is under autocast of any device, a function mode (as for a default device) or a dispatch mode."""
    return bool(torch._C._is_any_autocast_enabled() or torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack())


dispatch_mode: Callable[[], Any] = _needed(torch.utils._python_dispatch, "_get_current_dispatch_mode")
"""The innermost dispatch mode of the thread: one that a user enters inside of ours must see the calls, and ours not."""


wraps_tensors: Callable[[type], bool] = _needed(torch.utils._python_dispatch, "is_traceable_wrapper_subclass_type")
"""True for a class of tensors, such as DTensor, that makes operations of plain tensors of each of its own."""


def has_shapes_only(kind: type) -> bool:
    """True for FakeTensor: DTensor asks for the shape of a result with it, and nothing is computed."""
    return issubclass(kind, torch._subclasses.FakeTensor)


def at_end_of_backward(call: Callable[[], None]) -> None:
    """`queue_callback`: make `call` at the end of the backward pass that is under way, in the order of these calls."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


def without_dispatch() -> AbstractContextManager[Any]:
    """`_DisableTorchDispatch`: dispatch modes do not see what is done here, such as taking numpy's view of a tensor."""
    mode: AbstractContextManager[Any] = torch._C._DisableTorchDispatch()
    return mode


def no_torch_function() -> Any:
    """`_disabled_torch_function_impl`, the `__torch_function__` of a subclass of Tensor whose results are plain tensors, at no cost."""
    return torch._C._disabled_torch_function_impl


def print_options() -> dict[str, Any]:
    """`torch._tensor_str.PRINT_OPTS`: what `torch.set_printoptions` has set."""
    return dict(vars(torch._tensor_str.PRINT_OPTS))


def address_of_storage(tensor: Tensor) -> int:
    """`UntypedStorage._cdata`, which identifies the storage itself where `data_ptr()` identifies its memory."""
    storage: Any = tensor.untyped_storage()
    return int(storage._cdata)


def holders_of_storage(tensor: Tensor) -> int:
    """`_storage_Use_Count`, less the one who asks: the number of tensors that have this memory."""
    storage: Any = tensor.untyped_storage()
    return int(torch._C._storage_Use_Count(storage._cdata)) - 1


def break_graph_at(function: Callable[..., Any], reason: str) -> None:
    """Set `_torchdynamo_disable`: compilation breaks here, and calls cost nothing, where `torch.compiler.disable` takes microseconds."""
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = reason  # type: ignore[attr-defined]


def take_iterator(loader: DataLoader[Any]) -> Any:
    """`DataLoader._iterator`, taken off the loader: the iterator that a loader with persistent processes keeps for its next pass."""
    kept, loader._iterator = loader._iterator, None
    return kept


def end_processes(iterator: Any) -> None:
    """End the processes of a loader's iterator now; torch does so when the iterator is collected, which an exception can delay."""
    iterator._shutdown_workers()


def batches_given(iterator: Any) -> int | None:
    """`_num_yielded`: the number of batches that a DataLoader's iterator has given; None for other iterators."""
    given: int | None = getattr(iterator, "_num_yielded", None)
    return given


@contextmanager
def no_loader() -> Iterator[None]:
    """Let `get_worker_info()` return None, as outside of a loader's processes: a shard is divided once, not by the user's data again."""
    process: Any = torch.utils.data._utils.worker
    kept, process._worker_info = process._worker_info, None
    try:
        yield
    finally:
        process._worker_info = kept


def pinned(batch: Any) -> Any:
    """`batch` with its tensors in pinned memory, in all the structures that a DataLoader knows; public is only `Tensor.pin_memory`."""
    return torch.utils.data._utils.pin_memory.pin_memory(batch)  # type: ignore[no-untyped-call]


def default_store() -> Store:
    """The store of `init_process_group`, through which processes that torchrun has started can meet a second time."""
    store: Store = torch.distributed.distributed_c10d._get_default_store()
    return store


def store_of(group: Any) -> Store:
    """The store of a group, under a prefix of its own."""
    store: Store = torch.distributed.distributed_c10d._world.pg_map[group][1]
    return store


def have_monitored_barriers(kind: type) -> None:
    """Let `torch.distributed.monitored_barrier` call that of groups of `kind`, and of these alone: torch looks for the name "gloo"."""
    known: Any = torch.distributed.distributed_c10d
    theirs = known.monitored_barrier

    @wraps(theirs)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        chosen = known._get_default_group() if group is None else group
        if not isinstance(chosen, kind):
            theirs(group, timeout, wait_all_ranks)
        else:
            chosen.monitored_barrier(timedelta(seconds=timeout) if isinstance(timeout, float) else timeout, wait_all_ranks)  # type: ignore[attr-defined]

    known.monitored_barrier = monitored_barrier
    torch.distributed.monitored_barrier = monitored_barrier


def factor_of(op: Any) -> float | Tensor:
    """The factor of a PREMUL_SUM, which `ReduceOp` shows in its pickled state alone."""
    return op.__getstate__()[1]  # type: ignore[no-any-return]


@contextmanager
def isolated_threads() -> Iterator[None]:
    """`_set_thread_isolation_mode`: functional collectives find a group by its name among those of the calling thread."""
    private: Any = torch._C._distributed_c10d
    private._set_thread_isolation_mode(True)
    try:
        yield
    finally:
        private._set_thread_isolation_mode(False)


@contextmanager
def groups_made_by(world: Callable[[Any], Any], make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Put others in the place of `_world`, the groups of this process, and of `_new_process_group_helper`, which makes one."""
    known: Any = torch.distributed.distributed_c10d
    before = known._world, known._new_process_group_helper
    known._world, known._new_process_group_helper = world(before[0]), make(before[1])
    try:
        yield
    finally:
        known._world, known._new_process_group_helper = before


def name_only_backend(rank: int, size: int) -> Any:
    """A backend that raises an error for each collective: torch's C++ code looks for one where it asks a group for its name."""
    fake: Any = torch._C._distributed_c10d.FakeProcessGroup
    options = fake.Options()
    options.error_on_collective = True
    return fake._create_internal(rank, size, options)


def set_group_names(group: Any, name: str, description: str) -> None:
    """`_set_group_name` and `_set_group_desc`, as torch does for each group that it makes."""
    group._set_group_name(name)
    group._set_group_desc(description)


def register_group(group: Any, backend: str, store: Any, name: str, tag: str | None) -> None:
    """`_register_pg_in_world`: make a group known to torch.distributed under its name and tag."""
    known: Any = torch.distributed.distributed_c10d
    tags = {"add_to_default_tag": True} if not tag else {"pg_tag": f"user:{tag}"}
    known._register_pg_in_world(group, backend_name=backend, store=store, group_name=name, backend_config=f"cpu:{backend}", **tags)


WorldState: Any = _needed(torch.distributed.distributed_c10d, "_World")
"""The class of `_world`, the groups of a process."""


_MODULE_HOOKS = (
    "_global_buffer_registration_hooks",
    "_global_module_registration_hooks",
    "_global_parameter_registration_hooks",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
)
_OPTIMIZER_HOOKS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
_hooks_of_modules = attrgetter(*_MODULE_HOOKS, "_global_is_full_backward_hook")
_hooks_of_optimizers = attrgetter(*_OPTIMIZER_HOOKS)


def module_state(given: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """The variables of torch's modules that belong to one rank: the hooks of all modules and of all optimizers, DTensor's random tracker
    and what it does for single operations. With `given`, set them so."""
    if given:
        of_modules, of_optimizers, of_tensors = given
        vars(torch.nn.modules.module).update(zip((*_MODULE_HOOKS, "_global_is_full_backward_hook"), of_modules, strict=True))
        vars(every).update(zip(_OPTIMIZER_HOOKS, of_optimizers, strict=True))
        _set_state_of_tensors(*of_tensors)
    return _hooks_of_modules(torch.nn.modules.module), _hooks_of_optimizers(every), _state_of_tensors()


def _state_of_tensors() -> tuple[Any, Any]:
    api: Any = sys.modules.get("torch.distributed.tensor")  # importing it takes seconds
    return (None, None) if api is None else (api._random._rng_tracker, api.DTensor._op_dispatcher._custom_op_handlers)


def _set_state_of_tensors(tracker: Any, handlers: Any) -> None:
    api: Any = sys.modules.get("torch.distributed.tensor")
    if api is not None:
        api._random._rng_tracker = tracker
        dispatcher = api.DTensor._op_dispatcher
        dispatcher._custom_op_handlers = type(dispatcher)()._custom_op_handlers if handlers is None else handlers


def separate_module_state() -> None:
    """Let the rank that begins change its own hooks of all modules and of all optimizers, such as those of `CommDebugMode`, and its own
    operations of DTensor, such as those of `loss_parallel`."""
    tracker, handlers = _state_of_tensors()
    _set_state_of_tensors(tracker, handlers and handlers.copy())
    for where, names in ((torch.nn.modules.module, _MODULE_HOOKS), (every, _OPTIMIZER_HOOKS)):
        for name in names:
            setattr(where, name, getattr(where, name).copy())


@contextmanager
def profiler_called_by(makers: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]]) -> Iterator[None]:
    """Put others in the place of the functions with which torch's profilers begin and end; each maker is given the one of that name."""
    known: Any = torch.autograd.profiler
    before = {name: getattr(known, name) for name in makers}
    vars(known).update({name: make(before[name]) for name, make in makers.items()})
    try:
        yield
    finally:
        vars(known).update(before)


def forget_shardings() -> None:
    """Empty DTensor's caches of this thread, which keep groups: in a fork by another thread that of gloo waits for ever."""
    if "torch.distributed.tensor" in sys.modules:
        debug: Any = importlib.import_module("torch.distributed.tensor.debug")
        debug._clear_sharding_prop_cache()


def sharding_of(module: Any) -> tuple[set[torch.dtype], tuple[int, ...]]:
    """`_get_fsdp_state`: the type in which FSDP2 was asked to reduce a module's gradients, if in any, and the ranks that share these."""
    state: Any = getattr(module, "_get_fsdp_state", lambda: None)()
    group = getattr(state, "_fsdp_param_group", None)
    if group is None:
        return set(), ()
    requested = state._mp_policy.reduce_dtype
    return ({requested} if requested is not None else set()), tuple(map(int, group.mesh_info.mesh.mesh.flatten()))


def communication_hooks(module: Any) -> list[str]:
    """The names of the hooks that DistributedDataParallel exchanges gradients with, in the place of an all-reduce."""
    hooks = [hook for hook, _ in getattr(module, "_comm_hooks", ())]
    return [getattr(hook, "__name__", type(hook).__name__) for hook in hooks]


def spawned_function() -> Any:
    """`torch.multiprocessing.spawn._wrap`, which a process of `spawn` calls: it writes the error of the user's function to a file."""
    return sys.modules["torch.multiprocessing.spawn"]._wrap
