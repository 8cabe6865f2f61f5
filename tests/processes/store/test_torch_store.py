"""What torch builds over a store of ours: here process groups of gloo, because NCCL needs a device for each process."""

import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]

from polyrhythm.core.processes.collectives.nccl import Communicators
from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.core.processes.store.store_server import StoreServer
from polyrhythm.core.processes.store.torch_store import TorchStore

KEY = b"a key of thirty-two bytes or so."


def test_a_process_group_forms_over_it_and_adds_up() -> None:
    totals: dict[int, list[float]] = {}

    def member(server: StoreServer, rank: int) -> None:
        client = StoreClient(f"worker/{rank}", lambda: StoreTarget(*server.address, KEY), 20.0, "the store")
        store = TorchStore(client, "torch/")
        group = dist.ProcessGroupGloo(PrefixStore("group/all", store), rank, 3, timedelta(seconds=20))
        value = torch.full((5,), rank + 1.0)
        group.allreduce([value]).wait()  # type: ignore[attr-defined]
        totals[rank] = value.tolist()
        del group
        client.close()

    with StoreServer("127.0.0.1", 3, KEY) as server:
        threads = [threading.Thread(target=member, args=(server, rank)) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert totals == {rank: [6.0] * 5 for rank in range(3)}


def test_it_has_what_torch_requires_of_a_store() -> None:
    with StoreServer("127.0.0.1", 1, KEY) as server:
        client = StoreClient("worker/0", lambda: StoreTarget(*server.address, KEY), 20.0, "the store")
        store = TorchStore(client, "torch/")
        other = PrefixStore("p", store.clone())
        store.set("a", "text")
        other.set("a", b"\0bytes")
        assert (store.get("a"), other.get("a"), store.get("p/a")) == (b"text", b"\0bytes", b"\0bytes")
        assert (store.add("n", 3), other.add("n", 1), store.add("n", -1)) == (3, 1, 2)
        assert [store.check(["a", "n"]), store.check(["a", "z"])] == [True, False]
        store.wait(["a", "n"], timedelta(seconds=5))
        store.set_timeout(timedelta(seconds=0.05))
        assert store.timeout == timedelta(seconds=0.05)
        with pytest.raises(TimeoutError):
            store.get("never")
        client.close()


def test_without_a_device_no_store_is_opened() -> None:
    assert not Communicators(lambda: pytest.fail("it was opened"), "cpu").usable
