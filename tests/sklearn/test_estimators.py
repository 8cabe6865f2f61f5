"""The estimators of pr.sklearn: scikit-learn's own checks, NumPy's memory, and runs of several workers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.errors import CompositionError, DataError
from polyrhythm.sklearn import Classifier, MultilayerPerceptron, Regressor
from polyrhythm.sklearn.arrays import outputs_of, tensor_of

HERE = Simulator()
BOTH = (Classifier(on=HERE), Regressor(on=HERE))
NEEDS_A_VARIABLE = "check_array_api_input"  # skips itself without SCIPY_ARRAY_API, which SciPy reads when it is imported: see the long test
CHECKS = [
    (estimator, check)
    for each in BOTH
    for estimator, check in estimator_checks_generator(each)
    if getattr(check, "func", check).__name__ != NEEDS_A_VARIABLE
]
X, Y = make_classification(120, 6, n_informative=4, class_sep=2.0, random_state=0)
A, B = make_regression(120, 4, noise=0.1, random_state=0)
B = B / B.std()


@pytest.mark.filterwarnings("default")  # the checks make what scikit-learn warns of
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=[f"{type(e).__name__}-{getattr(c, 'func', c).__name__}" for e, c in CHECKS])
def test_a_check_of_scikit_learn_passes(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.long
def test_check_estimator_passes_for_both_with_no_check_left_out() -> None:
    program = (
        "import polyrhythm as pr\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "for kind in (pr.sklearn.Classifier, pr.sklearn.Regressor):\n"
        "    found = check_estimator(kind(on=pr.Simulator()), on_fail=None, on_skip=None)\n"
        "    assert found and all(each['status'] == 'passed' for each in found), found\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"SCIPY_ARRAY_API": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tensor_and_its_array_are_one_memory_both_ways(dtype: Any) -> None:
    array = np.arange(6, dtype=dtype).reshape(2, 3)
    tensor = tensor_of(array)
    array[0, 0] = 7
    assert tensor[0, 0] == 7
    tensor[1, 2] = 9
    assert array[1, 2] == 9
    assert tensor_of(array[:, ::2]).data_ptr() == array.ctypes.data


def test_an_array_that_must_not_be_written_to_is_read_where_it_is() -> None:
    array = np.ones((2, 2))
    array.setflags(write=False)
    assert tensor_of(array).data_ptr() == array.ctypes.data


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_workers_of_virtual_time_train_on_the_array_itself_and_predictions_are_the_tensors_of_the_module(dtype: Any) -> None:
    seen: list[torch.Tensor] = []
    features = X.astype(dtype)

    class Watching(torch.nn.Linear):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            seen.append(given)
            return super().forward(given)

    fitted = Classifier(Watching(6, 2), epochs=1, on=HERE).fit(features, Y)
    seen.clear()
    fitted.predict(features)
    assert seen[0].data_ptr() == features.ctypes.data
    outputs = outputs_of(fitted.module_, features)
    assert outputs.numpy().ctypes.data == outputs.data_ptr()
    assert fitted.predict_proba(features).dtype == dtype
    assert next(fitted.module_.parameters()).dtype == tensor_of(features).dtype


def test_probabilities_sum_to_one_in_the_order_of_classes_of_any_type() -> None:
    names = np.array(["yes", "no"])[Y]
    fitted = Classifier(on=HERE, random_state=0).fit(X, names)
    found = fitted.predict_proba(X)
    assert list(fitted.classes_) == ["no", "yes"]
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (fitted.classes_[found.argmax(axis=1)] == fitted.predict(X)).all()
    assert fitted.score(X, names) > 0.9


def test_a_search_over_a_pipeline_varies_the_settings_and_the_module() -> None:
    line = make_pipeline(StandardScaler(), Classifier(on=HERE, epochs=4, random_state=0))
    grid = {"classifier__learning_rate": [1e-6, 0.02], "classifier__module": [None, MultilayerPerceptron((8, 8))]}
    found = GridSearchCV(line, grid, cv=2).fit(X, Y)
    assert found.best_params_["classifier__learning_rate"] == 0.02
    assert found.best_score_ > 0.8


@pytest.mark.parametrize(("estimator", "features", "targets"), [(BOTH[0], X, Y), (BOTH[1], A, B)], ids=["classifier", "regressor"])
def test_a_clone_and_a_pickle_predict_the_same(estimator: Any, features: Any, targets: Any) -> None:
    first = clone(estimator).set_params(epochs=2, random_state=3).fit(features, targets)
    again = clone(first).fit(features, targets)
    assert (first.predict(features) == again.predict(features)).all()
    assert (pickle.loads(pickle.dumps(first)).predict(features) == first.predict(features)).all()


@pytest.mark.parametrize("strategy", ["allreduce", "diloco", "ssp"])
def test_workers_train_one_estimator_by_any_strategy(strategy: str) -> None:
    fitted = Classifier(workers=3, strategy=strategy, on=HERE, random_state=0, epochs=30).fit(X, Y)
    assert fitted.run_.summary.workers == 3
    assert fitted.run_.summary.bytes_sent > 0
    assert fitted.score(X, Y) > 0.8


@pytest.mark.cover
def test_real_processes_and_virtual_time_come_to_the_same_weights() -> None:
    real, virtual = (Regressor(workers=2, on=on, epochs=2, random_state=5).fit(A, B) for on in (Processes(), HERE))
    assert real.run_.summary.weights_sha256 == virtual.run_.summary.weights_sha256
    assert (real.predict(A) == virtual.predict(A)).all()


def test_a_warm_start_and_a_partial_fit_continue_from_the_weights() -> None:
    fitted = Classifier(on=HERE, epochs=1, warm_start=True, random_state=0)
    losses = [fitted.fit(X, Y).run_.final["loss"] for _ in range(5)]
    module = fitted.module_
    assert losses[-1] < losses[0] / 2
    fitted.partial_fit(X[:40], Y[:40])
    assert fitted.module_ is module
    step = Classifier(on=HERE, random_state=0).partial_fit(X[:1], Y[:1], classes=[0, 1])
    for _ in range(20):
        step.partial_fit(X, Y)
    assert step.score(X, Y) > 0.9
    steady = Regressor(on=HERE, random_state=0)
    for _ in range(20):
        steady.partial_fit(A, B)
    assert steady.score(A, B) > 0.9


def test_several_outputs_are_predicted_in_the_shape_of_the_targets() -> None:
    fitted = Regressor(on=HERE, loss=torch.nn.functional.l1_loss, optimizer=partial(torch.optim.SGD, momentum=0.9)).fit(A, np.c_[B, -B])
    assert fitted.predict(A).shape == (120, 2)


def test_a_given_module_is_not_trained_itself() -> None:
    module = torch.nn.Linear(6, 2)
    before = module.weight.detach().clone()
    Classifier(module, on=HERE, epochs=1).fit(X, Y)
    assert torch.equal(module.weight, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs=0 trains nothing"),
        ({"batch_size": 1.5}, "batch_size=1.5 is not a whole number"),
        ({"module": 3}, "module=3 makes no module"),
        ({"module": torch.nn.Linear}, "makes no module"),
        ({"module": lambda inputs, outputs: None}, "made a NoneType"),
        ({"workers": 0}, "workers"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        Classifier(on=HERE, **settings).fit(X, Y)


def test_a_new_class_after_the_first_fit_is_refused() -> None:
    fitted = Classifier(on=HERE, epochs=1, warm_start=True).fit(X, Y)
    with pytest.raises(DataError, match=r"2.* is none of the classes"):
        fitted.partial_fit(X, np.full(len(X), 2))


def test_a_layer_without_units_is_refused() -> None:
    with pytest.raises(CompositionError, match="a layer without units"):
        MultilayerPerceptron((4, 0))
