"""Private names of torch for tensors, models, optimizers and loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim import optimizer as every
from torch.utils import _pytree
from torch.utils.data import DataLoader

from polyrhythm.core.torch_private.needed import needed

BatchNorm: Any = needed(torch.nn.modules.batchnorm, "_BatchNorm")
"""The layers with statistics of batches, of any number of dimensions."""
NormBase: Any = needed(torch.nn.modules.batchnorm, "_NormBase")
"""These, and those with statistics of instances."""
flash_attention_on_cpu: Any = needed(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")
"""The operation that `scaled_dot_product_attention` is on the CPU; of tensors without memory torch takes another one."""
number_of_tensor: Any = needed(torch.ops.aten, "_local_scalar_dense")
"""The operation that `Tensor.item()` and `float(tensor)` are."""
version: Callable[[Tensor], int] = attrgetter("_version")
"""`Tensor._version`, which counts in-place writes: the only sign that user code has written to a gradient, weight or buffer."""


def without_numbers(kind: type[Tensor], shape: Sequence[int], dtype: torch.dtype) -> Any:
    """A tensor of the class `kind` without memory, by `Tensor._make_wrapper_subclass`: its operations are all `__torch_dispatch__`'s."""
    return Tensor._make_wrapper_subclass(kind, tuple(shape), dtype=dtype)


def tree_leaves(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The leaves of a nesting of containers, each with its path as a text, and the structure, by `torch.utils._pytree`."""
    leaves, structure = _pytree.tree_flatten_with_path(tree)
    return [(_pytree.keystr(path), leaf) for path, leaf in leaves], structure


def tree_of(leaves: Sequence[Any], structure: Any) -> Any:
    """The nesting with this structure and these leaves, by `torch.utils._pytree`."""
    return _pytree.tree_unflatten(list(leaves), structure)


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


backward_pass: Callable[[], int] = needed(torch._C, "_current_graph_task_id")
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


dispatch_mode: Callable[[], Any] = needed(torch.utils._python_dispatch, "_get_current_dispatch_mode")
"""The innermost dispatch mode of the thread: one that a user enters inside of ours must see the calls, and ours not."""


wraps_tensors: Callable[[type], bool] = needed(torch.utils._python_dispatch, "is_traceable_wrapper_subclass_type")
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


def remove_hook(handle: Any) -> None:
    """Remove a forward hook of all modules that gets named arguments, with the mark of it in `_global_forward_hooks_with_kwargs`, which
    torch leaves: while there is one, torch.compile warns of hooks."""
    handle.remove()
    torch.nn.modules.module._global_forward_hooks_with_kwargs.pop(handle.id, None)


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
