"""A script that joins a run, and does at its fifth step, or after its last, what its second argument says, if it is rank 1."""

import argparse
import os
import signal
import sys
import time

import torch
from torch.nn import functional as F
from toy import data, network

import polyrhythm as pr

system, deed = sys.argv[1:3]
culprit = os.environ["RANK"] == "1"
seconds = float(os.environ.get("TIMEOUT", "0")) or None


def do(what: str) -> None:
    match what:
        case "exit 3":
            sys.exit(3)
        case "exit 0":
            sys.exit(0)
        case "exit in finally":
            try:
                raise KeyError("hidden")
            finally:
                sys.exit("all is lost")
        case "raise SystemExit":
            raise SystemExit(3)
        case "raise":
            raise KeyError("no such column")
        case "_exit":
            os._exit(4)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "swallowed":
            time.sleep(0.1)
        case "argparse":
            parser = argparse.ArgumentParser(prog="joined")
            parser.add_argument("--lr", type=float)
            parser.parse_args(["--lr", "fast"])


def main() -> None:
    chosen = ("tree" if culprit else "allreduce") if deed == "other system" else system
    worker = pr.join(chosen, seed=2 if deed == "other seed" and culprit else 1, timeout=seconds)
    if deed == "argparse" and culprit:
        do("argparse")
    model = torch.nn.Sequential(torch.nn.Linear(10, 3)) if deed == "other model" and culprit else network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in worker.batches(data(), batch_size=4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if worker.clock == 5 and culprit and deed not in ("late", "drift", "finished"):
            do(deed)
        if deed == "drift" and culprit:
            next(iter(model.parameters())).data.mul_(1.01)
    if deed == "late":
        worker.finish()
        if culprit:
            time.sleep(0.5)
            sys.exit(5)
    if deed == "finished":
        worker.finish()
        raise SystemExit(0)
    print("the end")


if __name__ == "__main__":
    main()
