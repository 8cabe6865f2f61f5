"""The text, and the GPT on it."""

from __future__ import annotations

import math

import pytest
import torch

from polyrhythm.errors import WorkloadError
from polyrhythm.workloads import CharsGpt, CharsGpt5m
from polyrhythm.workloads.chars import bits_per_character, corpus, windows
from polyrhythm.workloads.gpt import Gpt, GptSize


def shape_of(settings: CharsGpt | CharsGpt5m, vocabulary: int) -> GptSize:
    return GptSize(vocabulary, settings.context, settings.layers, settings.width, settings.heads)


@pytest.mark.parametrize(("settings", "low", "high"), [(CharsGpt(), 0.78e6, 0.86e6), (CharsGpt5m(), 4.6e6, 5.2e6)])
def test_the_models_have_the_sizes_their_descriptions_state(settings: CharsGpt | CharsGpt5m, low: float, high: float) -> None:
    # The number of different characters, and with it the size, varies a little between versions of Python.
    model = Gpt(shape_of(settings, corpus().vocabulary))
    assert low <= sum(parameter.numel() for parameter in model.parameters()) <= high


def test_the_last_tenth_of_the_text_is_kept_for_validation() -> None:
    text = corpus()
    total = len(text.training) + len(text.validation)
    assert len(text.training) == total * 9 // 10
    assert total > 300_000
    assert 90 <= text.vocabulary <= 256
    assert int(text.training.max()) < text.vocabulary


def test_windows_pair_each_character_with_the_next() -> None:
    x, y = windows(torch.arange(100), context=8, samples=10).tensors
    assert x.shape == y.shape == (10, 8)
    assert torch.equal(y, x + 1)
    assert x[:, 0].tolist() == list(range(0, 90, 9))


def test_windows_reach_over_the_whole_text_without_a_copy() -> None:
    text = corpus().training
    dataset = windows(text, context=64, samples=16_000)
    assert len(dataset) == 16_000
    assert dataset.tensors[0].untyped_storage().data_ptr() == text.untyped_storage().data_ptr()
    assert dataset.tensors[0].storage_offset() == 0
    assert dataset.tensors[0].stride(0) == (len(text) - 64) // 16_000


def test_the_last_possible_window_is_given_and_one_more_is_refused() -> None:
    _, y = windows(torch.arange(10), context=4, samples=6).tensors
    assert y[-1].tolist() == [6, 7, 8, 9]
    with pytest.raises(WorkloadError, match="samples=7"):
        windows(torch.arange(10), context=4, samples=7)


def test_a_character_does_not_see_those_that_follow() -> None:
    torch.manual_seed(0)
    model = Gpt(GptSize(vocabulary=11, context=8, layers=2, width=16, heads=2))
    symbols = torch.randint(0, 11, (1, 8))
    changed = symbols.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 11
    before, after = model(symbols), model(changed)
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5], after[:, 5])


def test_attention_equals_its_definition() -> None:
    torch.manual_seed(0)
    block = Gpt(GptSize(vocabulary=5, context=6, layers=1, width=8, heads=2)).blocks[0]
    x = torch.randn(3, 6, 8)
    parts = block.query_key_value(x).split(8, dim=-1)  # type: ignore[operator]
    query, key, value = (part.view(3, 6, 2, 4).transpose(1, 2) for part in parts)
    scores = (query @ key.transpose(-1, -2) / 2).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    expected = block.join_heads((scores.softmax(-1) @ value).transpose(1, 2).reshape(3, 6, 8))  # type: ignore[operator]
    torch.testing.assert_close(block.attend(x), expected)  # type: ignore[operator]


def test_shorter_texts_than_the_context_can_be_scored() -> None:
    model = Gpt(GptSize(vocabulary=11, context=8, layers=1, width=16, heads=2))
    assert model(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, 11)


def test_a_model_that_knows_nothing_needs_the_logarithm_of_the_vocabulary_in_bits() -> None:
    text = corpus()
    settings = CharsGpt()
    model = Gpt(GptSize(text.vocabulary, settings.context, layers=1, width=8, heads=1))
    torch.nn.init.zeros_(model.score.weight)
    assert bits_per_character(model, text.validation, settings, "cpu") == pytest.approx(math.log2(text.vocabulary), rel=1e-4)


def test_all_workers_together_see_the_samples_once(lone_worker: type) -> None:
    alone, four = lone_worker(), lone_worker(workers=4)
    for worker in (alone, four):
        CharsGpt(samples=256, layers=1, width=16)(worker)
    assert (alone.steps, four.steps) == (16, 4)


def test_a_minute_part_of_the_training_already_beats_single_characters(lone_worker: type) -> None:
    worker = lone_worker()
    CharsGpt(samples=1_280, layers=1, width=64, learning_rate=4e-3)(worker)
    assert worker.final["bits"] < 4.2  # the entropy of single characters is about 4.7


def test_a_width_that_the_heads_cannot_share_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"width=100 and heads=3.*multiple"):
        CharsGpt(width=100, heads=3)
