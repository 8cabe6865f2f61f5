"""The belief net: its machines against the sum over all states, and training by several workers against training by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import polyrhythm as pr
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads import DbnDigits
from polyrhythm.workloads.belief_net.greedy import UNKNOWN, with_labels
from polyrhythm.workloads.belief_net.machine import BoltzmannMachine, TwoWayLayer, contrastive_divergence
from polyrhythm.workloads.belief_net.up_down import UpDown
from polyrhythm.workloads.dbn_digits import partly_labelled, pixels
from polyrhythm_reproductions.jobs import enumeration

STEPS = pr.Simulator(devices=pr.hardware.Profile("a step of 1 ms", (1e-3,)))


def machine(visible: int, hidden: int, scale: float = 0.5, seed: int = 0) -> BoltzmannMachine:
    made = BoltzmannMachine(visible, hidden).double()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return made


def seen(units: int, count: int = 40) -> Tensor:
    """States of pairs of units that agree."""
    draw = torch.Generator().manual_seed(5)
    half = (torch.rand(count, units // 2, generator=draw) > 0.5).double()
    return torch.cat([half, half], dim=1)


def test_the_free_energy_is_the_sum_over_hidden_states() -> None:
    made, visible = machine(5, 4), enumeration.states(5)
    hidden = enumeration.states(4)
    energies = -(visible @ made.weight @ hidden.T) - (visible @ made.visible_bias).unsqueeze(1) - hidden @ made.hidden_bias
    assert torch.allclose(made.free_energy(visible), -torch.logsumexp(-energies, dim=1))
    assert torch.allclose(enumeration.log_likelihood(made, visible).exp().sum(), torch.ones((), dtype=torch.float64))


def test_contrastive_divergence_vanishes_on_average_at_equilibrium() -> None:
    made = machine(4, 3)
    every = enumeration.states(4)
    chances = enumeration.log_likelihood(made, every).exp().detach()
    draw = torch.Generator().manual_seed(0)
    which = torch.multinomial(chances, 400_000, replacement=True, generator=draw)
    noise = torch.rand(len(which), 3, generator=draw, dtype=torch.float64)
    found = contrastive_divergence(made, every[which], noise)
    away = contrastive_divergence(made, seen(4, 400_000), noise)
    # the reconstruction is a mean, whose hidden units are not quite those of states: only the visible units must agree
    assert found.visible_bias.norm() < 0.02 * away.visible_bias.norm()
    assert found.weight.norm() < 0.5 * away.weight.norm()


@pytest.mark.parametrize("learns", ["likelihood", "contrastive divergence"])
def test_a_machine_on_top_that_begins_tied_does_not_lower_the_bound(learns: str) -> None:
    data = seen(6)
    below, above = machine(6, 6, scale=0.1), BoltzmannMachine(6, 6).double()
    share = torch.full((len(data),), 1 / len(data), dtype=torch.float64)
    for _ in range(100):
        enumeration.descend(below, enumeration.likelihood_gradient(below, data, share), 0.5)
    enumeration.turned(below, above)
    exact = enumeration.log_likelihood(below, data).mean()
    bounds = [enumeration.variational_bound(below, above, data).mean()]
    assert torch.allclose(enumeration.net_log_likelihood(below, above, data).mean(), exact)
    every, weights = enumeration.states(6), enumeration.posterior(below, data)
    draw = torch.Generator().manual_seed(1)
    for _ in range(40):
        if learns == "likelihood":
            gradients = enumeration.likelihood_gradient(above, every, weights)
        else:
            which = torch.multinomial(weights, 4000, replacement=True, generator=draw)
            noise = torch.rand(4000, 6, generator=draw, dtype=torch.float64)
            gradients = [each / 4000 for each in contrastive_divergence(above, every[which], noise)[:3]]
        enumeration.descend(above, gradients, 0.05)
        bounds.append(enumeration.variational_bound(below, above, data).mean())
    assert bounds[-1] <= enumeration.net_log_likelihood(below, above, data).mean()
    if learns == "likelihood":
        assert all(b >= a - 1e-12 for a, b in pairwise(bounds))
    assert bounds[-1] > bounds[0]
    untied = enumeration.variational_bound(below, machine(6, 6, scale=1.0, seed=9), data).mean()
    assert untied < bounds[0]


def test_the_gradient_downward_is_that_of_the_likelihood() -> None:
    torch.manual_seed(0)
    layer = TwoWayLayer(6, 4).double()
    top = BoltzmannMachine(4, 3).double()
    kept = list[Tensor]()

    def draw(chances: Tensor) -> Tensor:
        kept.append((chances > torch.rand_like(chances)).double())
        return kept[-1]

    images = seen(6)
    (found,), _ = UpDown([layer], top, 1).gradients(images, lambda visible: (visible, None), draw)
    F.binary_cross_entropy(layer.downward(kept[0]), images, reduction="sum").backward()  # type: ignore[no-untyped-call]
    assert layer.machine.weight.grad is not None
    assert torch.allclose(found.weight, layer.machine.weight.grad)
    assert torch.allclose(found.visible_bias, layer.machine.visible_bias.grad)  # type: ignore[arg-type]
    layer.zero_grad()
    dreamed = layer.downward(kept[-1]).detach()
    F.binary_cross_entropy(layer.upward(dreamed), kept[-1], reduction="sum").backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(found.weight + found.difference, layer.difference.grad)  # type: ignore[arg-type]
    assert torch.allclose(found.hidden_bias, layer.machine.hidden_bias.grad)  # type: ignore[arg-type]


def test_unknown_labels_have_no_part() -> None:
    made = BoltzmannMachine(5, 4, labels=3)
    units, noise = torch.rand(6, 2), torch.rand(6, 4)
    visible, known = with_labels(made, units, torch.full((6,), UNKNOWN))
    found = contrastive_divergence(made, visible, noise, known)
    assert not found.weight[2:].any()
    assert not found.visible_bias[2:].any()
    assert found.weight[:2].any()
    classes = partly_labelled(torch.arange(100), 0.1)
    assert int((classes != UNKNOWN).sum()) == 10


def weights(job: DbnDigits, workers: int, strategy: str) -> Mapping[str, Tensor]:
    return pr.run(job, workers=workers, strategy=strategy, on=STEPS, seed=3).weights


@pytest.mark.parametrize("system", ["allreduce", pytest.param("mxnet", marks=pytest.mark.long)])
def test_several_workers_train_what_one_trains(system: str) -> None:
    one = weights(DbnDigits(epochs=1, fine_epochs=1, batch_size=96), 1, "single")
    several = weights(DbnDigits(epochs=1, fine_epochs=1, batch_size=32), 3, system)
    assert max(float((several[name] - each).abs().max()) for name, each in one.items()) <= 1e-6


def test_both_directions_stay_tied_until_the_net_is_fine_tuned() -> None:
    greedy = weights(DbnDigits(epochs=1, fine_epochs=0, batch_size=96), 2, "ssp")
    assert not greedy["layer1.difference"].any()
    tuned = weights(DbnDigits(epochs=1, fine_epochs=1, batch_size=96), 2, "ssp")
    assert all(bool(each.any()) for name, each in tuned.items() if name.endswith("difference"))


RESUMED = DbnDigits(epochs=1, fine_epochs=1, batch_size=225)
"""Four steps of two workers for each machine, then four of wake and sleep."""
PHASES = [
    pytest.param(0, id="first machine", marks=pytest.mark.long),
    pytest.param(1, id="second machine"),
    pytest.param(2, id="top machine", marks=pytest.mark.long),
    pytest.param(3, id="up and down"),
]


class SavingWorker:
    """The `worker`, which writes a checkpoint in the epoch `phase`, after two steps of it."""

    def __init__(self, worker: Any, phase: int) -> None:
        self.worker, self.left = worker, phase

    def __getattr__(self, name: str) -> Any:
        return getattr(self.worker, name)

    def batches(self, *args: Any, **options: Any) -> Iterator[Any]:
        for number, batch in self.worker.enumerate(self.worker.batches(*args, **options)):
            yield batch
            if self.left == 0 and number == 1:
                assert self.worker.save()
        self.left -= 1


@pytest.mark.parametrize("phase", PHASES)
def test_training_resumes_in_the_middle_of_any_phase_to_the_bit(phase: int, tmp_path: Path) -> None:
    """Also its Gibbs chains and increments: states are drawn from numbers that belong to samples."""

    def train(worker: Any) -> None:
        RESUMED(SavingWorker(worker, phase))  # type: ignore[arg-type]

    def run(checkpoints: pr.Checkpoints) -> pr.Run:
        return pr.run(train, workers=2, strategy="allreduce", on=STEPS, seed=3, checkpoints=checkpoints)

    whole, again = run(pr.Checkpoints(tmp_path)), run(pr.Checkpoints(resume=tmp_path))
    assert all(torch.equal(again.weights[name], each) for name, each in whole.weights.items())
    assert again.final == whole.final


def test_pixels_are_probabilities() -> None:
    training, test = pixels()
    for each in (training, test):
        assert 0 <= float(each.tensors[0].min()) < float(each.tensors[0].max()) <= 1


def test_settings_of_the_belief_net_that_cannot_be_are_refused() -> None:
    for wrong, message in ((lambda: DbnDigits(labelled=1.5), "at most 1"), (lambda: DbnDigits(fine_epochs=-1), "0 or more")):
        with pytest.raises(WorkloadError, match=message):
            wrong()


@pytest.mark.long
def test_machines_are_those_of_scikit_learn_and_learn_as_well() -> None:
    from sklearn.neural_network import BernoulliRBM

    images = pixels()[0].tensors[0].double()
    other = BernoulliRBM(128, learning_rate=0.05, batch_size=16, n_iter=10, random_state=0).fit(images.numpy())
    run = pr.run(DbnDigits(epochs=10, fine_epochs=0), workers=1, strategy="single", on=STEPS, seed=0)
    ours = BernoulliRBM(128, random_state=0).fit(images[:10].numpy())
    ours.components_ = run.weights["layer1.machine.weight"].double().T.numpy()
    ours.intercept_hidden_ = run.weights["layer1.machine.hidden_bias"].double().numpy()
    ours.intercept_visible_ = run.weights["layer1.machine.visible_bias"].double().numpy()
    made = BoltzmannMachine(64, 128).double()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(run.weights[f"layer1.machine.{name}"])
    states = (images > 0.5).double()
    assert torch.allclose(made.free_energy(states).detach(), torch.from_numpy(ours._free_energy(states.numpy())))
    assert torch.allclose(made.hidden(states).detach(), torch.from_numpy(ours.transform(states.numpy())), atol=1e-6)
    held_out = (pixels()[1].tensors[0] > 0.5).double().numpy()
    likelihoods = [sum(each.score_samples(held_out).mean() for _ in range(10)) / 10 for each in (ours, other)]
    assert likelihoods[0] > likelihoods[1] - 1.0
