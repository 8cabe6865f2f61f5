"""The parameters that an optimizer trains, laid end to end in one vector.

A replica makes one `Parameters` for each of its parts; the part reads gradients and weights through it, and the watches compare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from polyrhythm.core.strategy.same_memory import common_vector, laid
from polyrhythm.core.tensors import NO_GRADIENT, Layout, without_gradient
from polyrhythm.core.torch_private.one_process import add_to_each
from polyrhythm.errors import CompositionError


class Parameters:
    """Makes parameters of one type, on one device, views of one flat vector (numel,), so that weights are read and written at once.

    `modules` own the parameters, by the parameters' names.
    """

    def __init__(self, named: Sequence[tuple[str, nn.Parameter]], modules: Mapping[str, nn.Module]) -> None:
        self.modules = modules
        self.names = {id(parameter): name for name, parameter in named}
        self.parameters = [parameter for _, parameter in named]
        self.layout = Layout.of(named)
        self.absent = False
        """True if a parameter had no gradient when `parts` was called last."""
        self.flat: Tensor
        common = common_vector(self.parameters)
        self.lie_in(torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters]) if common is None else common)

    def lie_in(self, flat: Tensor) -> None:
        """Make the parameters views of `flat` (numel,), whose values they have from now on."""
        self.flat = flat
        laid(flat)
        views = self.layout.views(flat)
        for parameter, view in zip(self.parameters, views, strict=True):
            parameter.data = view
        self.places = [view.data_ptr() for view in views]

    def owners(self, local: str) -> dict[str, tuple[nn.Module, nn.Parameter]]:
        """The modules in which a parameter has the name `local`, each with that parameter, by the modules' names."""
        named = [(name.rpartition("."), parameter) for name, parameter in zip(self.layout.names, self.parameters, strict=True)]
        return {path: (self.modules["".join((path, dot, last))], parameter) for (path, dot, last), parameter in named if last == local}

    def gradient(self) -> Tensor:
        """All gradients (numel,), NO_GRADIENT where a parameter has none (others may have one for it); a new tensor."""
        return self.gather(self.parameters)

    def parts(self) -> list[Tensor]:
        """Each parameter's gradient (numel of it,) where it lies, to be written to.

        A parameter without one gets NO_GRADIENT; one that is not contiguous, or shares memory with another, becomes a copy.
        """
        grads, parts, firsts, end = [], [], [], 0
        for parameter in self.parameters:
            grads.append(torch.full_like(parameter, NO_GRADIENT) if parameter.grad is None else _dense(parameter.grad))
        for address, k in sorted(zip(map(Tensor.data_ptr, grads), range(len(grads)), strict=True)):
            if not grads[k].is_contiguous() or address < end:
                grads[k] = grads[k].clone(memory_format=torch.contiguous_format)
            else:
                end = address + grads[k].nbytes
        self.absent = False
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parts.append(grad.view(-1))
            if parameter.grad is None:
                self.absent = True
            elif grad.numel():
                firsts.append(parts[-1][:1])
            parameter.grad = grad
        if firsts:
            add_to_each(firsts, 0.0)  # a gradient of -0.0 is one too
        return parts

    def present(self) -> list[Tensor]:
        """The existing gradients, each as it is: sparse, or of any strides."""
        return [parameter.grad.detach() for parameter in self.parameters if parameter.grad is not None]

    @staticmethod
    def gather(parameters: Sequence[nn.Parameter]) -> Tensor:
        """The gradients of some parameters, end to end, NO_GRADIENT for those without one; a new tensor."""
        grads = [torch.full_like(p, NO_GRADIENT).view(-1) if p.grad is None else _dense(p.grad).reshape(-1) for p in parameters]
        flat = torch.cat(grads)
        starts, at = [], 0
        for parameter, grad in zip(parameters, grads, strict=True):
            if parameter.grad is not None and grad.numel():
                starts.append(at)
            at += grad.numel()
        flat[starts] += 0.0  # a gradient of -0.0 is one too
        return flat

    def put_gradient(self, flat: Tensor) -> None:
        """Give every parameter its part of `flat` (numel,) as its gradient; there must be no other reference to `flat`."""
        for parameter, part in zip(self.parameters, self.layout.views(flat.to(self.flat.device)), strict=True):
            parameter.grad = part.data  # with its own version counter: a write to one gradient does not count as one to the others
        self.drop_nothing()

    def drop_absent(self) -> None:
        """After `parts`, remove the gradients of parameters that had none at any worker, among those that had none here."""
        if self.absent:
            self.drop_nothing()

    def drop_nothing(self) -> None:
        """Remove the gradients of parameters that had none at any worker: the optimizer then skips them, as in a single process."""
        grads = [parameter.grad for parameter in self.parameters]
        for parameter, absent in zip(self.parameters, without_gradient([grad.view(-1) for grad in grads if grad is not None]), strict=True):
            if absent:
                parameter.grad = None

    @property
    def in_place(self) -> bool:
        """True if the parameters lie where they were put: not when the model was moved, or `p.data` replaced."""
        return list(map(Tensor.data_ptr, self.parameters)) == self.places

    def values(self) -> Tensor:
        """The current values of the parameters (numel,), wherever they lie; a view, or a new tensor."""
        return self.flat if self.in_place else torch.cat([p.detach().reshape(-1).to(self.flat) for p in self.parameters])

    @staticmethod
    def moved() -> CompositionError:
        """The error for parameters that the user has moved since attaching, which would leave them out of the exchange."""
        return CompositionError(
            "The model was moved or converted after worker.attach, so its parameters are not those that the workers exchange: "
            "call model.to(...) before attaching, and write p.data.copy_(values), not p.data = values."
        )


def copy_bytes(tensors: Sequence[Tensor]) -> Tensor:
    """The bytes of `tensors`, in order."""
    return torch.cat([tensor.cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors])


def paste_bytes(copied: Tensor, tensors: Sequence[Tensor]) -> None:
    """Overwrite `tensors` by the bytes of another worker's, which `copy_bytes` made."""
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    if sum(sizes) != copied.numel():
        raise CompositionError("The workers' models differ in size: every worker must build the same model.")
    for tensor, part in zip(tensors, torch.split(copied, sizes), strict=True):
        tensor.copy_(part.clone().view(tensor.dtype).view(tensor.shape))


def _dense(grad: Tensor) -> Tensor:
    if grad.layout != torch.strided:
        raise CompositionError(
            "A gradient is sparse, but this exchange needs dense gradients: build the embedding with sparse=False, or select it for an "
            'exchange of rows, as in selected=[(Modules("Embedding"), Exchange(codec=TouchedRows()))].'
        )
    return grad.detach() if grad.requires_grad else grad
