"""Values that all must agree on, and the error where they do not; and the one about uneven numbers of steps."""

from polyrhythm.core.kernel.agreement import Agreements, difference
from polyrhythm.core.kernel.uneven import uneven


def test_the_first_difference_is_named_with_who_has_what() -> None:
    reported = {f"worker/{rank}": {"seed": "1" if rank % 4 else "2", "system": str(rank)} for rank in range(8)}
    assert difference(reported) == "worker/0 and worker/4 have seed 2, worker/1 and 5 others have seed 1"
    assert difference({"worker/0": {"seed": "1"}, "worker/1": {}}) == "worker/0 has seed 1, worker/1 has no seed"
    assert difference({"worker/0": {"seed": "1"}, "worker/1": {"seed": "1"}}) is None


def test_a_worker_that_is_elsewhere_is_not_said_to_lack_what_the_others_compare() -> None:
    found = difference({"worker/0": {"final weights": "equal"}, "worker/1": {"model": "a"}, "worker/2": {"model": "a"}})
    elsewhere = "worker/1 and worker/2 have come to another call, in which the model of all is compared"
    assert found == f"worker/0 has final weights equal, {elsewhere}"


def test_rounds_follow_each_other_for_each_worker_by_itself() -> None:
    agreements = Agreements()
    assert [agreements.submit("worker/0", {"a": "1"}, "do alike"), agreements.submit("worker/0", {"b": "1"}, "do alike")] == [0, 1]
    assert not agreements.complete(0, ["worker/0", "worker/1"])
    assert agreements.submit("worker/1", {"a": "1"}, "do alike") == 0
    assert agreements.complete(0, ["worker/0", "worker/1"])
    assert agreements.difference(0) is None
    agreements.submit("worker/1", {"b": "2"}, "do alike")
    assert agreements.differs(1, "worker/1")
    assert agreements.difference(1) == "worker/0 has b 1, worker/1 has b 2: do alike"


def test_the_remedy_is_that_of_the_call_whose_fact_differs() -> None:
    agreements = Agreements()
    agreements.submit("worker/1", {}, "evaluate everywhere")
    agreements.submit("worker/0", {"a": "1"}, "attach everywhere")
    assert agreements.difference(0) == "worker/0 has a 1, worker/1 has no a: attach everywhere"


def test_who_left_and_who_wants_more_is_reported_with_the_remedy() -> None:
    remedy = "every worker must take the same number of steps; stop together with worker.any(...), or give all equally many batches."
    assert uneven({"worker/0": 21}, ["worker/1"]) == f"worker/0 finished after 21 steps, but worker/1 waits to take another: {remedy}"
    assert uneven({"worker/0": 1, "worker/2": 1}, ["worker/1", "worker/3", "worker/4"]) == (
        f"worker/0 and worker/2 finished after 1 step, but worker/1 and 2 others wait to take another: {remedy}"
    )
    assert uneven({"worker/0": 20, "worker/1": 21}, []) == f"worker/0 finished after 20 steps and worker/1 after 21 steps: {remedy}"
    assert uneven({"worker/0": 20, "worker/1": 20}, []) is None
    assert uneven({}, ["worker/0"]) is None


def test_who_waits_in_a_call_of_its_own_does_not_want_another_step() -> None:
    remedy = "every worker must make the same calls in the same order, so do not make this call under `if worker.rank == ...`."
    call = "worker.barrier(), mean(), any() or broadcast()"
    assert (
        uneven({"worker/1": 16}, ["worker/0"], ["worker/0"]) == f"worker/1 finished after 16 steps, but worker/0 waits in {call}: {remedy}"
    )
    assert uneven({"worker/0": 16, "worker/1": 16}, [], ["worker/0"]) == (
        f"worker/1 finished after 16 steps, but worker/0 waits in {call}: {remedy}"
    )
    wanting = uneven({"worker/1": 16}, ["worker/0", "worker/2"], ["worker/0"]) or ""
    assert wanting.startswith("worker/1 finished after 16 steps, but worker/2 waits to take another: every worker must take")
    assert uneven({"worker/0": 16}, [], ["worker/0"]) is None
