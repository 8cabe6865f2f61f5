"""The parameters that an optimizer trains, laid end to end in one vector."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.tensors import NOTHING, Layout, says_nothing


class Parameters:
    """Makes the parameters views of one flat vector (numel,), so that weights are read and written at once.

    Only parameters that need gradients and that the optimizer holds take part. `others` are what else the model remembers: frozen
    parameters, and buffers.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and id(p) in held]
        self._check(model, optimizer, named)
        self.optimizer = optimizer
        self.names = {id(parameter): name for name, parameter in named}
        self.parameters = [parameter for _, parameter in named]
        self.layout = Layout.of(named)
        self.flat = torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])
        for parameter, view in zip(self.parameters, self.layout.views(self.flat), strict=True):
            parameter.data = view
        self.places = [view.data_ptr() for view in self.layout.views(self.flat)]
        self.others = [t.detach() for t in (*model.parameters(), *model.buffers()) if id(t) not in self.names and t.numel()]

    @staticmethod
    def _check(model: nn.Module, optimizer: torch.optim.Optimizer, named: Sequence[tuple[str, nn.Parameter]]) -> None:
        if not list(model.parameters()):
            raise CompositionError(f"{type(model).__name__} has no parameters, so there is nothing to train: attach a model that has some.")
        if not named:
            raise CompositionError("The optimizer holds none of the model's parameters: build it from model.parameters() before attaching.")
        known = {id(parameter) for parameter in model.parameters()}
        strangers = sum(id(p) not in known for group in optimizer.param_groups for p in group["params"])
        if strangers:
            raise CompositionError(
                f"The optimizer holds {strangers} parameters that are not the model's: attach the module that owns all of them."
            )
        kinds = {(p.dtype, p.device) for _, p in named}
        if len(kinds) > 1:
            found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
            raise CompositionError(
                f"The parameters are of several kinds ({found}), and one vector holds one kind: convert the model, "
                f"for example with model.to(torch.float32); for half precision use torch.autocast."
            )
        if (dtype := named[0][1].dtype) not in (torch.float32, torch.float64):
            raise CompositionError(
                f"The parameters are {dtype}, in which small updates are lost and codecs cannot speak: keep them in torch.float32, and "
                f"use torch.autocast to compute in half precision."
            )

    def gradient(self) -> Tensor:
        """All gradients (numel,), NOTHING where a parameter got none (others may have one for it); a new tensor."""
        return self.gather(self.parameters)

    def parts(self) -> list[Tensor]:
        """As `gradient`, but each parameter's gradient flat where it lies, to be written to.

        A parameter without one gets NOTHING; one that is not contiguous, or shares memory with another, becomes a copy.
        """
        present = [p.grad is not None for p in self.parameters]
        grads = [torch.full_like(p, NOTHING) if p.grad is None else _dense(p.grad) for p in self.parameters]
        end = 0
        for k in sorted(range(len(grads)), key=lambda k: grads[k].data_ptr()):
            if not grads[k].is_contiguous() or grads[k].data_ptr() < end:
                grads[k] = grads[k].clone(memory_format=torch.contiguous_format)
            else:
                end = grads[k].data_ptr() + grads[k].nbytes
        for parameter, grad in zip(self.parameters, grads, strict=True):
            parameter.grad = grad
        parts = [grad.view(-1) for grad in grads]
        firsts = [part[:1] for part, there in zip(parts, present, strict=True) if there and part.numel()]
        if firsts:
            torch._foreach_add_(firsts, 0.0)  # a gradient of -0.0 is one too
        return parts

    @staticmethod
    def gather(parameters: Sequence[nn.Parameter]) -> Tensor:
        """The gradients of some parameters, end to end; as `gradient`."""
        grads = [torch.full_like(p, NOTHING).view(-1) if p.grad is None else _dense(p.grad).reshape(-1) for p in parameters]
        flat = torch.cat(grads)
        starts, at = [], 0
        for parameter, grad in zip(parameters, grads, strict=True):
            if parameter.grad is not None and grad.numel():
                starts.append(at)
            at += grad.numel()
        flat[starts] += 0.0  # a gradient of -0.0 is one too
        return flat

    def put_gradient(self, flat: Tensor) -> None:
        """Give every parameter its part of `flat` (numel,) as its gradient; nobody else may hold `flat`."""
        for parameter, part in zip(self.parameters, self.layout.views(flat.to(self.flat.device)), strict=True):
            parameter.grad = part.data  # with a version of its own: who writes to one gradient has not changed the others
        self.drop_nothing()

    def drop_nothing(self) -> None:
        """Take the gradient from parameters that nobody had one for: the optimizer passes over them, as it would without us."""
        grads = [parameter.grad for parameter in self.parameters]
        for parameter, silent in zip(self.parameters, says_nothing([grad.view(-1) for grad in grads if grad is not None]), strict=True):
            if silent:
                parameter.grad = None

    def check(self) -> None:
        """Refuse what the user has done since attaching that would leave some weights out of the exchange."""
        for group in self.optimizer.param_groups:
            if any(id(p) not in self.names and p.grad is not None for p in group["params"]):
                raise CompositionError(
                    "A parameter has a gradient that was frozen, or not in the optimizer, when the model was attached, so it is not "
                    "exchanged: attach with requires_grad=True, and give it a learning rate of 0 until it shall train."
                )
        if [p.data_ptr() for p in self.parameters] != self.places:
            raise CompositionError(
                "The model was moved or converted after worker.attach, so its weights are not those that the workers exchange: "
                "call model.to(...) before attaching."
            )

    def tell_others(self) -> Tensor:
        """The bytes of `others`, in order."""
        return torch.cat([tensor.cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in self.others])

    def hear_others(self, told: Tensor) -> None:
        """Overwrite `others` by the bytes of another worker's."""
        sizes = [tensor.numel() * tensor.element_size() for tensor in self.others]
        if sum(sizes) != told.numel():
            raise CompositionError("The workers' models differ in size: every worker must build the same model.")
        for tensor, part in zip(self.others, torch.split(told, sizes), strict=True):
            tensor.copy_(part.clone().view(tensor.dtype).view(tensor.shape))


def _dense(grad: Tensor) -> Tensor:
    if grad.is_sparse:
        raise CompositionError("A gradient is sparse, and only dense ones can be exchanged: build the embedding with sparse=False.")
    return grad.detach()
