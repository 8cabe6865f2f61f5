"""Private names of torch.distributed, and what ranks that share a process have of their own in torch's modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.distributed import Store  # type: ignore[attr-defined]
from torch.optim import optimizer as every

from polyrhythm.core.torch_private.needed import needed


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


@contextmanager
def waits_of_futures_after(call: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    """Before a wait for a future that is not done, make `call` with its `done`. Those that C++ returns are of `torch._C.Future` too."""
    kind: Any = torch._C.Future
    theirs = kind.wait

    @wraps(theirs)
    def wait(future: Any) -> Any:
        if not future.done():
            call(future.done)
        return theirs(future)

    kind.wait = wait
    try:
        yield
    finally:
        kind.wait = theirs


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


WorldState: Any = needed(torch.distributed.distributed_c10d, "_World")
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
