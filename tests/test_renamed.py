"""Names of the release before."""

import pytest

import polyrhythm as pr


@pytest.mark.parametrize(("before", "now"), [("Free", "Asynchronous"), ("Lockstep", "BulkSynchronous")])
def test_a_name_of_the_release_before_still_works_and_warns_of_the_new_one(before: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"polyrhythm.{before} is now called polyrhythm.{now}\."):
        assert getattr(pr, before) is getattr(pr, now)
