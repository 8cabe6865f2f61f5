"""Topics of documents: tokens a second of one core, and how well held-out words are predicted, beside tomotopy and scikit-learn.

    OMP_NUM_THREADS=1 python benchmarks/topic_models.py [--rounds 5] [--seeds 5] [--json FILE]

All have the same generated documents. Speeds are of CPU time, in rounds in which all take turns; ours are with alias tables. Held-out
likelihood is that of every other token of documents that are not trained on, given the others, with the topics of each after equal sweeps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import tomotopy
from numpy.typing import NDArray
from sklearn.decomposition import LatentDirichletAllocation

from polyrhythm.workloads.lda import divided
from polyrhythm.workloads.topics import alias_rows, native, portable, slices
from polyrhythm.workloads.topics.documents import Documents
from polyrhythm.workloads.topics.held_out import log_likelihood, topic_words
from polyrhythm.workloads.topics.planted import PlantedTopics
from polyrhythm_reproductions.jobs.topic_cost import ALPHA, BETA, LightSweeps, PlainGibbs, TopicState

FEW, MANY = 50, 1600
BLOCKS, CYCLES = 16, 4
TOPICS, SWEEPS = 20, 50
GIBBS_TOKENS = 8192
OURS = "lda, 4 cycles"
Seconds = Callable[[], float]


def tomotopy_model(documents: Documents, topics: int, seed: int) -> Any:
    """Tomotopy's collapsed Gibbs sampler, whose priors stay as they are."""
    model = tomotopy.LDAModel(k=topics, alpha=ALPHA, eta=BETA, seed=seed)
    model.optim_interval = 0
    for start, end in zip(documents.bounds, documents.bounds[1:], strict=False):
        model.add_doc([str(word) for word in documents.words[start:end]])
    model.train(0, workers=1)
    return model


@contextmanager
def loops_of(module: Any) -> Iterator[None]:
    """Draw with the loops of this module."""
    alias_rows.alias, slices.draw = module.alias, module.draw
    try:
        yield
    finally:
        alias_rows.alias, slices.draw = native.alias, native.draw


def contestants(documents: Documents, topics: int) -> dict[str, Seconds]:
    """Each gives the CPU seconds of a token."""

    def light(cycles: int, module: Any) -> Seconds:
        sweeps = LightSweeps(TopicState(documents, topics, 0), BLOCKS, cycles)

        def once() -> float:
            with loops_of(module):
                return sum(sweeps.sweep()) / documents.tokens

        return once

    model, gibbs = tomotopy_model(documents, topics, 0), PlainGibbs(TopicState(documents, topics, 0))

    def rival() -> float:
        began = time.process_time()
        model.train(1, workers=1)
        return (time.process_time() - began) / documents.tokens

    return {
        OURS: light(CYCLES, native),
        "lda, 1 cycle": light(1, native),
        "lda without a compiler, 4 cycles": light(CYCLES, portable),
        "tomotopy": rival,
        "plain Gibbs in numpy": lambda: gibbs.seconds(GIBBS_TOKENS) / GIBBS_TOKENS,
    }


def speeds(rounds: int) -> dict[str, dict[int, list[float]]]:
    """CPU seconds of a token by contestant and number of topics, in each round but the first."""
    documents = PlantedTopics(2000, 80, 1000, TOPICS).drawn(0)
    running = {topics: contestants(documents, topics) for topics in (FEW, MANY)}
    found: dict[str, dict[int, list[float]]] = {name: {topics: [] for topics in running} for name in running[FEW]}
    for number in range(rounds + 1):
        for name, measured in found.items():
            for topics, taken in measured.items():
                seconds = running[topics][name]()
                if number:  # the first warms memory and caches up
                    taken.append(seconds)
    return found


def likelihoods(seed: int) -> dict[str, float]:
    """The mean log-likelihood of a held-out token, by contestant."""
    training, test = divided(PlantedTopics(1000, 80, 1000, TOPICS).drawn(seed))
    ours = LightSweeps(state := TopicState(training, TOPICS, seed), BLOCKS, CYCLES)
    for _ in range(SWEEPS):
        ours.sweep()
    model = tomotopy_model(training, TOPICS, seed)
    model.train(SWEEPS, workers=1)
    sizes = scipy.sparse.csr_matrix(
        (np.ones(training.tokens), (training.document_of, training.words)), shape=(len(training), training.vocabulary)
    )
    variational = LatentDirichletAllocation(
        TOPICS, doc_topic_prior=ALPHA, topic_word_prior=BETA, max_iter=SWEEPS, learning_method="batch", random_state=seed
    ).fit(sizes)
    counts = {OURS: state.counts, "tomotopy": counts_of(model, training.vocabulary), "scikit-learn": variational.components_.T - BETA}
    return {name: log_likelihood(topic_words(each, BETA), test, ALPHA) for name, each in counts.items()}


def counts_of(model: Any, vocabulary: int) -> NDArray[np.float64]:
    """The counts (vocabulary, topics) behind the probabilities that tomotopy gives for the words that it has seen."""
    seen = [int(word) for word in model.used_vocabs]
    counts = np.zeros((vocabulary, model.k))
    for topic, tokens in enumerate(model.get_count_by_topics()):
        counts[seen, topic] = model.get_topic_word_dist(topic) * (tokens + BETA * len(seen)) - BETA
    return counts


def _shown(values: Sequence[float], style: str) -> str:
    low, middle, high = (format(each(values), style) for each in (min, statistics.median, max))
    return f"{middle} ({low} to {high})"


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    taken = speeds(options.rounds)
    print(f"load {load:.1f}, tomotopy {tomotopy.__version__} ({tomotopy.isa})\n")
    print(f"| | tokens a second, K = {FEW} | K = {MANY} | t({MANY}) / t({FEW}) | tomotopy's time / its, K = {FEW} | K = {MANY} |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, of in taken.items():
        rates = [_shown([1 / each for each in of[topics]], ",.0f") for topics in (FEW, MANY)]
        growth = _shown([many / few for few, many in zip(of[FEW], of[MANY], strict=True)], ".2f")
        beside = [_shown([b / a for a, b in zip(of[k], taken["tomotopy"][k], strict=True)], ".3f") for k in (FEW, MANY)]
        print(f"| {name} | {' | '.join(rates)} | {growth} | {' | '.join(beside)} |", flush=True)
    found = [likelihoods(seed) for seed in range(options.seeds)]
    print(f"\n| {SWEEPS} sweeps, K = {TOPICS} | log-likelihood of a held-out token | ours / its |\n|---|--:|--:|")
    for name in found[0]:
        ratios = [each[OURS] / each[name] for each in found]
        print(f"| {name} | {_shown([each[name] for each in found], '.4f')} | {_shown(ratios, '.4f')} |")
    if options.json is not None:
        text = json.dumps({"load": load, "tomotopy": tomotopy.isa, "seconds_of_a_token": taken, "log_likelihoods": found}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
