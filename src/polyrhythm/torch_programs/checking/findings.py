"""What a check finds, and the known causes of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownCause:
    """A known cause: what it is, what to do, and where it was reported."""

    what: str
    remedy: str
    reports: str


@dataclass(frozen=True, slots=True)
class SilentError:
    """A silent error: the name of its cause in `CAUSES`, which parameter and how far in a sentence, and the line, of step `step`."""

    cause: str
    what: str
    where: str
    step: int = 0

    def __str__(self) -> str:
        cause = CAUSES[self.cause]
        place = f" ({self.where}, step {self.step + 1})" if self.where else f" (step {self.step + 1})"
        reports = f" Known from: {cause.reports}." if cause.reports else ""
        return f"{self.cause}: {self.what}{place}.\n    {cause.what} {cause.remedy}{reports}"


CAUSES = {
    "skipped-data": KnownCause(
        "A rank is at another place of the data than the others, so that samples are never used, or are used again later.",
        "Let all ranks skip the same number of batches, and resume samplers on all of them.",
        "transformers PR #48569",
    ),
    "same-data": KnownCause(
        "Ranks that average their gradients train on the same samples.",
        "Give a DistributedSampler the rank and the number of replicas, or let the script take its part of the batch.",
        "",
    ),
    "labels": KnownCause(
        "Outputs of one micro-batch meet the labels of another.",
        "Draw inputs and labels from one loader, or let first and last stage shuffle by the same seed.",
        "DeepSpeed #5729",
    ),
    "equal-dropout": KnownCause(
        "Ranks with different activations drop the same elements, because they have the same seed.",
        "Seed each data-parallel rank differently after the model is initialised.",
        "pytorch #168058",
    ),
    "different-dropout": KnownCause(
        "Ranks with the same activations drop different elements, so that what they hold in common differs from here on.",
        "Seed the ranks of one tensor-parallel group equally for dropout of what they all hold.",
        "pytorch #168058, DeepSpeed #6811",
    ),
    "dtensor-convolution": KnownCause(
        "DTensor's convolution does not support inputs that are split in space or channels, and labels its output as replicated.",
        "Split convolutions over the batch only, or gather their inputs.",
        "pytorch #191926, PR #186129",
    ),
    "not-replicated": KnownCause(
        "A DTensor says that ranks hold the same, or parts of a certain shape, and they do not.",
        "Give from_local the placements that the values have, such as Partial() or Shard(dim).",
        "torchtitan PR #3412, pytorch #172812",
    ),
    "partial-read": KnownCause(
        "A partial sum is read as a value: to_local() of a DTensor with the placement Partial() gives what this rank has added.",
        "Redistribute it to Replicate() before.",
        "torchtitan PR #3412, PR #1373",
    ),
    "reduce-dtype": KnownCause(
        "FSDP2 reduces gradients over the tensor-parallel ranks in the type in which it computes, whatever reduce_dtype says.",
        "Compute such parameters in float32, or reduce them in a hook.",
        "pytorch #190626, PR #190627",
    ),
    "scale-grads": KnownCause(
        "A pipeline schedule with scale_grads=True divides all of .grad by its micro-batches, also what earlier calls put there.",
        "Give scale_grads=False, and divide once before the optimizer's step.",
        "torchtitan #1733, PR #1732",
    ),
    "stale-gradients": KnownCause(
        "The optimizer does not get the sum of what backward passes gave in this step.",
        "Add each micro-batch to the buffer, and clear it once for each step.",
        "Fast-LLM #550, pytorch PR #144535",
    ),
    "local-norm": KnownCause(
        "Each rank clips by the norm of the gradients that it holds, not by that of all.",
        "Add up the squares over the ranks that hold different parts, once for each element, or use DTensors.",
        "pytorch #170862, torchtune #2420, accelerate PR #4219",
    ),
    "norm-counts-twice": KnownCause(
        "The norm of the gradients counts elements several times that several ranks hold.",
        "Count replicated parameters on one rank, and the first of tied ones.",
        "accelerate PR #4219, DeepSpeed #4298",
    ),
    "unfrozen": KnownCause(
        "The parameter was frozen when its gradients were arranged to be reduced, and was unfrozen later: its ranks train alone.",
        "Wrap the model again after requires_grad changes, or reduce these gradients by hand.",
        "pytorch #186998, #134050",
    ),
    "norms-in-sequence-parallel": KnownCause(
        "The norm sees a part of the sequence on each rank, and nobody sums its gradients over these ranks.",
        "All-reduce the gradients of norms, and of biases after a reduce-scatter, over the tensor-parallel group.",
        "Megatron-LM #1446, #474, TransformerEngine #435, torchtitan PR #1373",
    ),
    "tied-on-stages": KnownCause(
        "Two stages hold one tied parameter, and their gradients are not summed: they become different parameters.",
        "All-reduce its gradients over the stages that hold it, and broadcast it at the beginning.",
        "piper #13, Megatron-LM #299, #656, torchtitan #2252",
    ),
    "not-reduced": KnownCause(
        "Gradients of replicas are not reduced: each rank trains a model of its own.",
        "Call the model through its DistributedDataParallel wrapper, leave no_sync() for the last micro-batch, and reduce all.",
        "gpt-neox PR #1257, #1259",
    ),
    "replicas-differ": KnownCause(
        "Ranks that hold the same parameter do not have the same gradient for it, or not the same value after the step.",
        "Reduce its gradients over the ranks that hold it, and let all do the same with the result.",
        "torchtitan PR #1373",
    ),
    "initialisation": KnownCause(
        "Replicas begin with different weights.",
        "Broadcast the weights of one rank before the first step, or seed all equally for the initialisation.",
        "pytorch #168058, #140301, torchtitan #689",
    ),
    "mean-over-wrong-ranks": KnownCause(
        "All gradients are off by one whole factor: a mean counts ranks that do not have samples of their own, or a sum has no mean.",
        "Divide losses by the data-parallel ranks alone, once.",
        "transformers PR #39674, Megatron-LM #673, #906, #1124",
    ),
    "auxiliary-loss": KnownCause(
        "The main loss is that of one process, and what is added to it is scaled by another factor.",
        "Treat auxiliary losses as the main loss: DistributedDataParallel and FSDP2 average gradients already.",
        "Megatron-LM #3943, PR #3959, #2217",
    ),
    "uneven-parts": KnownCause(
        "Ranks have different numbers of samples, and the mean of their means is not the mean of all.",
        "Weight each rank's loss by its samples, or drop the remainder.",
        "pytorch #162692",
    ),
    "communication-hook": KnownCause(
        "A communication hook exchanges something else than the mean of the gradients, as compression does on purpose.",
        "Check the script without the hook; with it, compare the loss that training comes to.",
        "Vogels et al., 2019",
    ),
    "differs": KnownCause("The gradients are not those of one process, for a reason that no detector knows.", "", ""),
}
