"""The work of a run on its way from the driver to the tasks."""

from __future__ import annotations

import os
import pickle
import sys

import msgspec
import torch

from polyrhythm.core.kernel.job import Work
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.core.processes.spawn import job_spec
from polyrhythm.core.processes.transport.wire import packed as as_payload


class Surroundings(msgspec.Struct, frozen=True):
    """The driver's module search path and arguments, the threads that a worker computes with, and its timeout in seconds."""

    path: list[str]
    arguments: list[str]
    threads: int
    timeout: float | None


def packed(work: Work, threads: int, timeout: float | None) -> Message:
    """The message with `work`, which is pickled. Raises CompositionError if it cannot be."""
    surroundings = Surroundings([os.path.abspath(folder) for folder in job_spec.module_path()], list(sys.argv), threads, timeout)
    return Message("work", text=msgspec.json.encode(surroundings).decode(), tensors=as_payload(job_spec.pickled(work)))


def unpacked(message: Message) -> tuple[Work, Patience]:
    """The work, in a process that finds modules and arguments as the driver does; folders that are not on this host are left out."""
    surroundings = msgspec.json.decode(message.text, type=Surroundings)
    job_spec.extend_module_path(surroundings.path)
    sys.argv[:] = surroundings.arguments
    torch.set_num_threads(surroundings.threads)
    work: Work = pickle.loads(message.tensors[0].numpy().data)  # from the authenticated driver alone
    return work, Patience(timeout=surroundings.timeout)
