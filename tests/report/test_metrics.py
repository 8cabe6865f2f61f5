"""Which metric counts, which way is better, and when a target is reached."""

from __future__ import annotations

import pytest

from polyrhythm.core.kernel.events import CrewChanged, Reported
from polyrhythm.core.records.metrics import Target, curve_of, higher_is_better, metrics_of, parse_target, primary_metric
from polyrhythm.errors import CompositionError

from .scenes import outcome, plain

LOWER = ["loss", "test_loss", "valloss", "bits", "bits_per_character", "perplexity", "Error", "mse", "val/rmse", "nll", "fid", "distance"]
LOWER += ["cross_entropy", "negative_log_likelihood"]


@pytest.mark.parametrize("metric", LOWER)
def test_losses_errors_bits_and_distances_are_better_when_lower(metric: str) -> None:
    assert higher_is_better(metric) is False


@pytest.mark.parametrize("metric", ["accuracy", "test_acc", "f1", "reward", "log_likelihood"])
def test_accuracies_scores_and_likelihoods_are_better_when_higher(metric: str) -> None:
    assert higher_is_better(metric) is True


@pytest.mark.parametrize("metric", ["test", "gap", "generator", "epoch", "mseries"])
def test_what_the_name_does_not_state_is_not_guessed(metric: str) -> None:
    assert higher_is_better(metric) is None


@pytest.mark.parametrize(
    ("final", "primary"),
    [
        ({"loss": 1.0, "bits": 2.0, "accuracy": 0.5}, "accuracy"),
        ({"loss": 1.0, "bits": 2.0}, "bits"),
        ({"reward": 3.0, "loss": 1.0}, "loss"),
        ({"reward": 3.0, "length": 1.0}, "reward"),
        ({"loss": 1.0, "test_accuracy": 0.5}, "test_accuracy"),
        ({"epoch": 3.0, "training_loss": 1.0, "test_loss": 0.5}, "test_loss"),
        ({"epoch": 3.0, "generator": 1.0, "distance": 0.5}, "distance"),
        ({"step": 3.0, "generator": 1.0}, "generator"),
        ({"epoch": 3.0}, None),
        ({}, None),
    ],
)
def test_the_primary_metric_is_accuracy_then_bits_then_loss_then_one_that_has_a_direction_and_never_a_counter(
    final: dict[str, float], primary: str | None
) -> None:
    assert primary_metric([plain("ssp", 1.0, 1, [], final=final)]) == primary


def test_loss_follows_the_primary_metric() -> None:
    assert metrics_of([plain("ssp", 1.0, 1, [], final={"reward": 1.0, "loss": 2.0, "accuracy": 0.1})]) == ["accuracy", "loss", "reward"]


def test_only_worker_0_counts_though_others_report_too() -> None:
    assert {report.actor for report in curve_of(outcome("ssp"), "loss")} == {"worker/0"}
    assert Target("accuracy", 0.9999).first_reached(outcome("ssp")) is None


def test_a_curve_continues_with_the_worker_that_is_first_after_worker_0_was_lost() -> None:
    made = plain("ssp", 1.0, 1, [])
    made.events += [Reported(1.0, f"worker/{k}", 1, {"loss": 1.0 + k}, 0) for k in range(3)]
    made.events.append(CrewChanged(2.0, "worker/1", 1, ("worker/1", "worker/2"), (), ("worker/0",)))
    made.events += [Reported(time, f"worker/{k}", 2, {"loss": 0.1 * k}, 0) for time in (1.9, 3.0) for k in (1, 2)]
    assert [(event.time, event.actor) for event in curve_of(made, "loss")] == [(1.0, "worker/0"), (3.0, "worker/1")]


def test_a_target_is_reached_at_the_first_report_as_good() -> None:
    run = plain("ssp", 9.0, 9, [(1.0, 1, 0.5), (2.0, 2, 0.9), (3.0, 3, 0.8), (4.0, 4, 0.95)])
    reached = Target("accuracy", 0.9).first_reached(run)
    assert reached is not None
    assert (reached.time, reached.bytes_sent) == (2.0, 2)


def test_a_target_that_falls_is_reached_from_above() -> None:
    assert Target("loss", 0.5).met_by(0.4)
    assert not Target("loss", 0.5).met_by(0.6)


def test_a_target_is_read_from_text() -> None:
    assert parse_target("accuracy=0.96") == Target("accuracy", 0.96)


@pytest.mark.parametrize("text", ["accuracy", "=0.9", "accuracy=", "accuracy=high", "accuracy=nan", "a=b=1"])
def test_what_is_no_target_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(CompositionError, match=r"accuracy=0\.96"):
        parse_target(text)


def test_a_sign_shows_which_way_is_better_where_the_name_does_not() -> None:
    most, least = parse_target("gap <= 0.1"), parse_target("gap>=0.1")
    assert (str(most), most.higher_is_better, least.higher_is_better) == ("gap 0.1", False, True)
    assert (most.met_by(0.05), least.met_by(0.05)) == (True, False)
    assert parse_target("accuracy>=0.96") == Target("accuracy", 0.96)
    with pytest.raises(CompositionError, match="does not show whether higher or lower"):
        parse_target("gap=0.1")
    with pytest.raises(CompositionError, match="Did you mean 'accuracy'"):
        parse_target("accurcy=0.9")
