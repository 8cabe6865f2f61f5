"""ExecuTorch: PyTorch's own runtime for phones and boards, a program of some hundred kilobytes without Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.extras import needed
from polyrhythm.errors import ExportError
from polyrhythm.export.program import ModelProgram, quiet, reason

FILE = "model.pte"


@dataclass(frozen=True, slots=True)
class ExecuTorch:
    """One file, model.pte, in which XNNPACK computes what it can: kernels for ARM and x86 in float32.

    The batch may be of any size up to `most`, for which the runtime reserves memory. Raises CompositionError where the package executorch
    is not installed.
    """

    most: int = 64

    name: ClassVar[str] = "executorch"
    exact: ClassVar[bool] = True
    opener: ClassVar[Path] = Path(__file__).with_name("openers") / "open_executorch.py"

    def check(self) -> None:
        """Raise CompositionError where the extra is not installed."""
        needed("executorch.exir", "executorch")

    def write(self, program: ModelProgram, folder: Path) -> Path:
        """Write model.pte. Raises ExportError for a model that ExecuTorch cannot run."""
        exir = needed("executorch.exir", "executorch")
        partitioner = needed("executorch.backends.xnnpack.partition.xnnpack_partitioner", "executorch").XnnpackPartitioner()
        graph = program.exported(self.most)
        try:
            with quiet():
                made = exir.to_edge_transform_and_lower(graph, partitioner=[partitioner]).to_executorch()
        except Exception as problem:  # of any of its passes
            raise ExportError(
                f"{type(program.model).__name__} cannot be written for ExecuTorch: {reason(problem)}. Write that part with other "
                "operators, or export the model as ONNX."
            ) from problem
        path = folder / FILE
        path.write_bytes(made.buffer)
        return path

    def outputs(self, file: Path, program: ModelProgram, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The outputs by ExecuTorch's runtime on this machine."""
        runtime = needed("executorch.runtime", "executorch").Runtime.get()
        loaded = runtime.load_program(str(file))  # named, so that it lives as long as its method
        try:
            found = loaded.load_method("forward").execute(list(inputs))
        except RuntimeError as problem:
            raise ExportError(
                f"ExecuTorch cannot compute the written model for {len(inputs[0])} samples ({reason(problem)}): give an example of the "
                "size that the device will use, and varying={} for that one size."
            ) from problem
        return tuple(each.clone() if isinstance(each, Tensor) else torch.as_tensor(each) for each in found)
