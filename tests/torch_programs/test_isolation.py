"""Laws of ranks that share a process: each finds what it would find in a process for itself."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader
from typer.testing import CliRunner

import polyrhythm as pr
from polyrhythm.core.simulator import threads
from polyrhythm.errors import DeadlockError, WorkerFailed
from polyrhythm.tools.cli.app import app


def everyones(main: Callable[[int], Any], ranks: int = 4) -> list[Any]:
    """What `main(rank)` returns at each rank, which waits for the others before and in the midst of it."""
    found: dict[int, Any] = {}

    def program() -> None:
        dist.init_process_group("gloo")
        found[dist.get_rank()] = main(dist.get_rank())
        dist.destroy_process_group()

    pr.simulate(program, ranks=ranks)
    return [found[rank] for rank in range(ranks)]


def others_run() -> None:
    dist.all_reduce(torch.ones(2, dtype=torch.float32))


def test_hooks_of_all_modules_and_optimizers_are_those_of_a_rank() -> None:
    def main(rank: int) -> list[str]:
        calls: list[str] = []
        if rank:
            register_module_forward_hook(lambda module, args, out: calls.append("forward"))
            register_optimizer_step_post_hook(lambda optimizer, args, kwargs: calls.append("step"))
        layer = torch.nn.Linear(1, 1)
        others_run()
        for _ in range(rank):
            layer(torch.ones(1))
            torch.optim.SGD(layer.parameters()).step()
            time.sleep(1)
        return calls

    assert everyones(main, ranks=3) == [[], ["forward", "step"], 2 * ["forward", "step"]]
    assert not torch.nn.modules.module._global_forward_hooks


def test_the_operations_of_loss_parallel_are_those_of_a_rank() -> None:
    def main(rank: int) -> int:
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor.parallel import loss_parallel

        time.sleep(rank)
        with loss_parallel():
            time.sleep(2)
        return len(DTensor._op_dispatcher._custom_op_handlers)

    assert len(set(everyones(main, ranks=3))) == 1


def draws(draw: Callable[[], Any], seed: Callable[[int], Any]) -> tuple[list[Any], list[Any]]:
    """What ranks draw between waits with seeds of their own, and what they draw alone."""

    def main(rank: int) -> list[Any]:
        seed(rank)
        found = []
        for _ in range(3):
            others_run()
            found.append(draw())
        return found

    def alone(rank: int) -> list[Any]:
        seed(rank)
        return [draw() for _ in range(3)]

    return everyones(main), [alone(rank) for rank in range(4)]


@pytest.mark.parametrize(
    ("draw", "seed"),
    [
        (lambda: torch.rand(2).tolist(), torch.manual_seed),
        (lambda: torch.nn.functional.dropout(torch.ones(16)).tolist(), torch.manual_seed),
        (random.random, random.seed),
        (lambda: np.random.normal(size=3).tolist(), np.random.seed),
    ],
    ids=["torch", "dropout", "random", "numpy"],
)
def test_random_numbers_are_those_of_a_rank_alone(draw: Callable[[], Any], seed: Callable[[int], Any]) -> None:
    before = torch.get_rng_state(), random.getstate()
    shared, alone = draws(draw, seed)
    assert shared == alone
    assert shared[0] != shared[1]
    torch.set_rng_state(before[0])
    random.setstate(before[1])


def test_what_no_rank_seeds_differs_between_ranks_and_repeats_with_the_seed_of_the_run() -> None:
    """As torch, numpy and `random` are seeded anew in each process: a program whose replicas must begin alike has to see to it."""

    def drawn(seed: int) -> list[Any]:
        found: dict[str, Any] = {}

        def main() -> None:
            found[os.environ["RANK"]] = torch.rand(1).item(), np.random.random(), random.random()

        pr.simulate(main, ranks=3, on=pr.Simulator(seed=seed))
        return [found[rank] for rank in sorted(found)]

    once, again, other = drawn(0), drawn(0), drawn(1)
    assert once == again
    assert len({*once, *other}) == 6


class OwnLogger(logging.Logger):
    """A kind of its own."""


SETTINGS: dict[str, tuple[Callable[[int], Any], Callable[[], Any]]] = {
    "threads": (lambda rank: torch.set_num_threads(1 + rank), torch.get_num_threads),
    "interop threads": (lambda rank: torch.set_num_interop_threads(1 + rank), lambda: 0),
    "dtype": (lambda rank: torch.set_default_dtype([torch.float32, torch.float64][rank % 2]), lambda: torch.ones(1).dtype),
    "device": (lambda rank: torch.set_default_device(["cpu", "meta"][rank % 2]), lambda: torch.ones(1).device.type),
    "deterministic": (lambda rank: torch.use_deterministic_algorithms(rank % 2 == 1), torch.are_deterministic_algorithms_enabled),
    "precision": (lambda rank: torch.set_float32_matmul_precision(["highest", "high"][rank % 2]), torch.get_float32_matmul_precision),
    "anomalies": (lambda rank: torch.autograd.set_detect_anomaly(rank % 2 == 1, check_nan=False), torch.is_anomaly_enabled),
    "grad": (lambda rank: torch.set_grad_enabled(rank % 2 == 1), torch.is_grad_enabled),
    "environment": (lambda rank: os.environ.update(OWN=str(rank)), lambda: os.environ["OWN"]),
    "directory": (lambda rank: os.chdir(["/", "/tmp"][rank % 2]), os.getcwd),
    "arguments": (lambda rank: sys.argv.append(f"of {rank}"), lambda: sys.argv[-1]),
    "path": (lambda rank: sys.path.insert(0, f"/of/{rank}"), lambda: sys.path[0]),
    "warnings": (lambda rank: warnings.filterwarnings("ignore", message=f"of {rank}"), lambda: warnings.filters[0][1].pattern),
    "level": (lambda rank: logging.getLogger().setLevel(10 + 10 * (rank % 2)), lambda: logging.getLogger().level),
    "logger": (
        lambda rank: logging.getLogger("of a rank").addHandler(logging.NullHandler()),
        lambda: len(logging.getLogger("of a rank").handlers),
    ),
    "errors": (lambda rank: setattr(sys, "excepthook", [repr, str][rank % 2]), lambda: sys.excepthook),
    "errors of threads": (lambda rank: setattr(threading, "excepthook", [repr, str][rank % 2]), lambda: threading.excepthook),
    "shown warnings": (lambda rank: logging.captureWarnings(rank % 2 == 1), lambda: warnings.showwarning),
    "kind of loggers": (lambda rank: logging.setLoggerClass([logging.Logger, OwnLogger][rank % 2]), logging.getLoggerClass),
    "disabled levels": (lambda rank: logging.disable(10 * (rank % 2)), lambda: logging.root.manager.disable),
    "input": (lambda rank: setattr(sys, "stdin", [None, io.StringIO][rank % 2]), lambda: sys.stdin),
    "temporary folder": (lambda rank: setattr(tempfile, "tempdir", ["/", "/tmp"][rank % 2]), tempfile.gettempdir),
    "depth": (lambda rank: sys.setrecursionlimit(2000 + rank % 2), sys.getrecursionlimit),
    "sockets": (lambda rank: socket.setdefaulttimeout([None, 2.0][rank % 2]), socket.getdefaulttimeout),
    "collector": (lambda rank: [gc.enable, gc.disable][rank % 2](), gc.isenabled),
    "printing": (lambda rank: torch.set_printoptions(precision=2 + rank % 2), lambda: str(torch.tensor([1 / 3]))),
    "precision of a library": (
        lambda rank: setattr(torch.backends.mkldnn.matmul, "fp32_precision", ["ieee", "bf16"][rank % 2]),
        lambda: torch.backends.mkldnn.matmul.fp32_precision,
    ),
    "library": (lambda rank: setattr(torch.backends.mkldnn, "enabled", rank % 2 == 1), lambda: torch.backends.mkldnn.enabled),
    "attention": (lambda rank: torch.backends.cuda.enable_flash_sdp(rank % 2 == 1), torch.backends.cuda.flash_sdp_enabled),
    "start of processes": (
        lambda rank: multiprocessing.set_start_method(["fork", "spawn"][rank % 2], force=True),
        multiprocessing.get_start_method,
    ),
    "signal": (
        lambda rank: signal.signal(signal.SIGTERM, [signal.SIG_IGN, signal.default_int_handler][rank % 2]),
        lambda: signal.getsignal(15),
    ),
}


def settings_here() -> dict[str, Any]:
    return {name: get() for name, (_, get) in SETTINGS.items() if name not in ("environment", "signal", "arguments", "warnings", "logger")}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_that_of_a_rank_alone(name: str) -> None:
    put, get = SETTINGS[name]

    def main(rank: int) -> tuple[Any, Any]:
        put(rank)
        before = get()
        with torch.device("cpu"):
            others_run()
        return before, get()

    handler, filters, threads_before, here = signal.getsignal(15), warnings.filters[:], torch.get_num_threads(), settings_here()
    found = everyones(main)
    assert settings_here() == here
    assert all(before == after for before, after in found)
    assert found[0] == found[2] or name in ("threads", "environment", "arguments", "path", "warnings")
    assert found[0] != found[1] or name in ("interop threads", "logger")
    assert (handler, filters, threads_before) == (signal.getsignal(15), warnings.filters, torch.get_num_threads())
    assert "OWN" not in os.environ


def test_what_a_rank_registers_for_the_exit_is_done_when_it_ends() -> None:
    done: list[str] = []

    def main(rank: int) -> None:
        atexit.register(done.append, f"first of {rank}")
        atexit.register(done.append, f"second of {rank}")
        unwanted = atexit.register(lambda: done.append("unwanted"))
        atexit.unregister(unwanted)

    everyones(main, 2)
    assert sorted(done) == ["first of 0", "first of 1", "second of 0", "second of 1"]
    assert done.index("second of 0") < done.index("first of 0")


def test_an_error_at_the_exit_is_shown_and_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    done: list[str] = []

    def main(rank: int) -> None:
        atexit.register(done.append, f"first of {rank}")
        atexit.register(lambda: [][rank])

    everyones(main, 2)
    assert sorted(done) == ["first of 0", "first of 1"]
    assert capsys.readouterr().err.count("IndexError: list index out of range") == 2


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.full((2,), float(row + len(os.environ.get("RANK", ""))))


def test_processes_of_loaders_and_commands_work_and_take_no_virtual_time() -> None:
    def main(rank: int) -> tuple[float, float, str]:
        began = time_now()
        total = sum(float(batch.sum()) for batch in DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="fork"))
        said = subprocess.run(["echo", str(rank)], capture_output=True, text=True, check=True).stdout.strip()
        return total, time_now() - began, said

    assert everyones(main, 2) == [(72.0, 0.0, "0"), (72.0, 0.0, "1")]


def test_a_rank_forks_processes_though_this_one_has_had_a_real_group() -> None:
    """A fork deletes what belongs to other threads, and a gloo group in DTensor's caches would wait there for threads that are not."""

    def main(rank: int) -> float:
        return sum(float(batch.sum()) for batch in DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="fork"))

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    fully_shard(torch.nn.Linear(2, 2))
    torch.distributed.destroy_process_group()
    assert everyones(main, 2) == [72.0, 72.0]


def time_now() -> float:
    import time

    return time.monotonic()


def test_a_wait_for_what_another_rank_would_do_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "STANDSTILL_SECONDS", 0.1)
    lock = threading.Lock()

    def main(rank: int) -> None:
        with lock:
            others_run()

    with pytest.raises(DeadlockError, match=r"worker/1 has waited for 0.2 s of real time at test_isolation.py:\d+: with lock:"):
        everyones(main, 2)


def test_the_exit_code_of_a_rank_is_named_and_is_that_of_the_command(tmp_path: Path) -> None:
    def main(rank: int) -> None:
        if rank == 2:
            sys.exit(7)
        others_run()

    with pytest.raises(WorkerFailed, match=r"worker/2 failed: it called sys.exit\(7\)") as caught:
        everyones(main)
    assert isinstance(caught.value.__cause__, SystemExit)
    assert caught.value.__cause__.code == 7
    script = tmp_path / "exits.py"
    script.write_text("import sys, torch.distributed as dist\ndist.init_process_group('gloo')\nsys.exit(7 * dist.get_rank())\n")
    assert CliRunner().invoke(app, ["simulate", "--workers", "2", str(script)]).exit_code == 7


@pytest.mark.parametrize("profile", [torch.autograd.profiler.profile, torch.profiler.profile])
def test_one_rank_at_a_time_has_the_profiler_and_others_record_nothing(profile: Callable[[], Any], tmp_path: Path) -> None:
    def main(rank: int) -> tuple[int, int]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with profile() as all_at_once:
                others_run()
        for turn in range(3):
            if turn == rank:
                with profile() as alone:
                    torch.ones(2) + torch.ones(2)
            others_run()
        all_at_once.export_chrome_trace(str(tmp_path / f"{rank}.json"))
        assert all("Profile one rank at a time" in str(each.message) for each in told)
        return len(all_at_once.key_averages()), len(alone.key_averages())

    found = everyones(main, ranks=3)
    assert found[0][0] > 0
    assert [together for together, _ in found[1:]] == [0, 0]
    assert all(alone > 0 for _, alone in found)


def test_a_rank_that_fails_gives_the_profiler_back() -> None:
    def main() -> None:
        torch.profiler.profile().start()
        raise ValueError("in the midst of it")

    for _ in range(2):
        with pytest.raises(WorkerFailed, match="in the midst of it"):
            pr.simulate(main, ranks=2)
    with torch.profiler.profile() as after:
        torch.ones(2).sum()
    assert len(after.key_averages()) > 0


def test_a_warning_is_shown_once_by_each_rank_unless_a_filter_says_always(tmp_path: Path) -> None:
    script = tmp_path / "warns.py"
    script.write_text(
        "import sys, warnings, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "warnings.filterwarnings(sys.argv[1], category=UserWarning)\n"
        "for step in range(3):\n"
        "    warnings.warn('look here')\n"
        "    with warnings.catch_warnings():\n"
        "        warnings.simplefilter('ignore')\n"
        "        dist.all_reduce(torch.ones(1))\n"
    )
    for action, times in (("default", 2), ("always", 6)):
        command = [sys.executable, "-m", "polyrhythm", "simulate", "--workers", "2", str(script), action]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stderr.count("UserWarning: look here") == times
