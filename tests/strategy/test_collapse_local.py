"""Systems of local steps become simpler ones at the end of their settings."""

from __future__ import annotations

import pytest
import torch
from test_collapse import OPTIMIZERS, plain
from toy import SLOW, Toy, weights

from polyrhythm import systems
from polyrhythm.codec import Identity
from polyrhythm.consistency import Every, LocalSteps, Switched
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.local_rules import AverageMoments, PlainSteps
from polyrhythm.merge import Mean, Nesterov, OuterOptimizer, SlowMomentum
from polyrhythm.topology import AggregationTree, AllReduce, Delayed, Tree

SGD, MOMENTUM, ADAM = Toy(OPTIMIZERS["sgd"], epochs=4), Toy(OPTIMIZERS["momentum"], epochs=4), Toy(OPTIMIZERS["adam"], epochs=4)
close = torch.testing.assert_close


def test_post_local_sgd_that_never_switches_is_all_reduce_with_momentum_too() -> None:
    for system in (systems.find("post-local-sgd", synchronous=10**6), systems.find("post-local-sgd", synchronous=0, period=1)):
        close(weights(MOMENTUM, 4, system), weights(MOMENTUM, 4, "allreduce"), rtol=1e-5, atol=1e-6)


def test_post_local_sgd_that_switches_at_once_is_local_sgd() -> None:
    switched = systems.find("post-local-sgd", synchronous=0, period=5)
    assert torch.equal(weights(ADAM, 3, switched), weights(ADAM, 3, Strategy(consistency=LocalSteps(5))))
    assert torch.equal(weights(ADAM, 3, switched), weights(ADAM, 3, systems.find("local-sgd", period=5)))


def test_qsparse_local_sgd_that_keeps_all_elements_is_local_sgd() -> None:
    for workers in (1, 3):
        every = weights(MOMENTUM, workers, systems.find("qsparse-local-sgd", period=5, ratio=1.0))
        close(every, weights(MOMENTUM, workers, systems.find("local-sgd", period=5)), rtol=1e-5, atol=1e-6)


def test_a_schedule_of_equal_rounds_is_a_number_of_steps() -> None:
    for schedule, tau in ((Every(4), 4), (Switched(0, 4), 4), (Every(1), 1), (Switched(3, 1), 1)):
        assert torch.equal(
            weights(ADAM, 3, Strategy(consistency=LocalSteps(schedule))), weights(ADAM, 3, Strategy(consistency=LocalSteps(tau)))
        )


def test_slowmo_without_slow_momentum_is_local_sgd() -> None:
    slow = Strategy(consistency=LocalSteps(4), merge=OuterOptimizer(SlowMomentum(1.0, 0.0)))
    close(weights(MOMENTUM, 3, slow), weights(MOMENTUM, 3, Strategy(consistency=LocalSteps(4))), rtol=1e-5, atol=1e-6)


def test_slowmo_of_one_step_of_sgd_is_synchronous_sgd_with_that_momentum() -> None:
    heavy = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.7), epochs=4)
    close(weights(SGD, 4, systems.find("slowmo", period=1, outer_momentum=0.7)), weights(heavy, 4, "allreduce"), rtol=1e-5, atol=1e-6)


def test_averaging_after_each_step_of_plain_sgd_is_one_step_on_the_whole_batch() -> None:
    averaging = systems.find("dl4j-averaging", period=1)
    for workers in (2, 4):
        close(weights(SGD, workers, averaging), plain(SGD, batch_size=8 * workers), rtol=1e-5, atol=1e-6)


def test_averaging_the_updater_too_after_each_step_is_synchronous_momentum_and_without_it_moments_stay_apart() -> None:
    close(weights(MOMENTUM, 4, systems.find("dl4j-averaging", period=1)), weights(MOMENTUM, 4, "allreduce"), rtol=1e-5, atol=1e-6)
    apart, together = (systems.find("dl4j-averaging", save_updater=save) for save in (False, True))
    assert (apart.local, together.local) == (PlainSteps(), AverageMoments())
    assert not torch.equal(weights(MOMENTUM, 4, apart), weights(MOMENTUM, 4, together))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_tree_of_two_branches_has_the_bits_of_the_binomial_one(workers: int) -> None:
    deep = AllReduce(AggregationTree(2))
    assert torch.equal(weights(ADAM, workers, Strategy(topology=deep)), weights(ADAM, workers, Strategy(topology=AllReduce(Tree()))))


def test_elephas_of_one_step_is_sparknet_of_one_step_and_all_reduce() -> None:
    one = systems.find("elephas", period=1)
    assert torch.equal(weights(SGD, 3, one), weights(SGD, 3, systems.find("sparknet", period=1)))
    close(weights(SGD, 3, one), weights(SGD, 3, "allreduce"), rtol=1e-5, atol=1e-6)


def test_elephas_without_locks_is_hogwild() -> None:
    assert torch.equal(weights(SGD, 3, "elephas-hogwild"), weights(SGD, 3, "hogwild"))


@pytest.mark.parametrize("optimizer", ["momentum", "adamw"])
def test_streaming_one_fragment_at_once_in_full_is_diloco_bit_for_bit(optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer], epochs=4)
    streaming = systems.find("streaming-diloco", period=5, parts=1, delay=0, own_share=0.0, outer_learning_rate=0.7, full_precision=True)
    diloco = systems.find("diloco", period=5)
    for workers in (1, 3):  # 48 and 16 steps: the last round is not whole
        assert torch.equal(weights(toy, workers, streaming), weights(toy, workers, diloco))
    assert torch.equal(weights(toy, 2, streaming, on=Processes()), weights(toy, 2, diloco, on=Processes()))


def test_fragments_that_are_exchanged_at_once_are_the_whole_model() -> None:
    """Without offsets, and with a merge that treats each element by itself."""
    together = systems.find("streaming-diloco", period=4, parts=2, delay=0, own_share=0.0, outer_learning_rate=0.7, full_precision=True)
    outer = together.exchange.with_pieces({"consistency": LocalSteps(4)})
    selected = [(selection, exchange.with_pieces({"consistency": LocalSteps(4)})) for selection, exchange in together.selected]
    close(
        weights(ADAM, 2, Strategy(exchange=outer, selected=selected)), weights(ADAM, 2, systems.find("diloco", period=4)), rtol=0, atol=1e-6
    )


def test_no_delay_of_updates_is_local_steps_bit_for_bit() -> None:
    """And a delay is another thing."""
    now, late = (Strategy(consistency=LocalSteps(4), topology=Delayed(AllReduce(), steps), merge=Mean()) for steps in (0, 2))
    plainly = weights(ADAM, 3, Strategy(consistency=LocalSteps(4), codec=Identity()))
    assert torch.equal(weights(ADAM, 3, now, Simulator(network=SLOW)), plainly)
    assert not torch.equal(weights(ADAM, 3, late, Simulator(network=SLOW)), plainly)


def test_an_outer_step_of_one_is_an_average_whatever_merges_it() -> None:
    rules = (OuterOptimizer(Nesterov(1.0, 0.0)), OuterOptimizer(SlowMomentum(1.0, 0.0)))
    one, other = (weights(SGD, 3, Strategy(consistency=LocalSteps(3), merge=rule)) for rule in rules)
    close(one, other, rtol=1e-5, atol=1e-6)
