"""The controller of Jobs, as far as tests need it: it keeps as many pods of a Job as that wants, and deletes those of a deleted one."""

from __future__ import annotations

from stub_store import Item, Refused, StubFollower, StubStore


class StubJobController:
    """Looks at all Jobs after each change."""

    def __init__(self, store: StubStore) -> None:
        self._store = store
        self.follower = StubFollower(store, self._look)

    def _look(self) -> None:
        jobs = {job["metadata"]["uid"]: job for job in self._store.listed("jobs", "")["items"]}
        pods = self._store.listed("pods", "")["items"]
        for job in jobs.values():
            self._keep(job, [pod for pod in pods if _owner(pod) == job["metadata"]["uid"]])
        for pod in pods:
            if _owner(pod) not in (None, *jobs) and not pod["metadata"].get("deletionTimestamp"):
                self._store.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], {})

    def _keep(self, job: Item, pods: list[Item]) -> None:
        counted = [pod for pod in pods if pod["status"].get("phase") != "Failed" and not pod["metadata"].get("deletionTimestamp")]
        for _ in range(job["spec"]["parallelism"] - len(counted)):
            metadata = job["metadata"]
            template = job["spec"]["template"]
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
            own = {**template.get("metadata", {}), "generateName": f"{metadata['name']}-", "ownerReferences": [owner]}
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template["spec"]}
            try:
                self._store.create("pods", metadata["namespace"], made)
            except Refused as refused:  # a test has made a Job whose pods cannot be
                raise AssertionError(str(refused)) from refused


def _owner(pod: Item) -> str | None:
    return next((str(each["uid"]) for each in pod["metadata"].get("ownerReferences", []) if each.get("controller")), None)
