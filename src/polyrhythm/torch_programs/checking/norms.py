"""A norm of gradients counts each element once."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from polyrhythm.torch_programs.checking.evidence import LayoutEvidence
from polyrhythm.torch_programs.checking.findings import SilentError

_NEAR = 1e-3


def clipped(evidence: LayoutEvidence) -> Iterator[SilentError]:
    """Norms that `clip_grad_norm_` returned, beside those of all elements that the ranks gave it."""
    for step in range(evidence.layout.steps):
        seen = evidence.layout.at(step)
        for place in range(min((len(each.clips) for each in seen.values() if each.clips), default=0)):
            clips = {rank: each.clips[place] for rank, each in seen.items() if each.clips}
            whole = evidence.places.whole({rank: clip.gradients for rank, clip in clips.items()})
            if not whole:
                continue
            true = float(torch.cat(list(whole.values())).nan_to_num().norm())
            for rank, clip in clips.items():
                own = float(torch.cat([each.flatten().double() for each in clip.gradients.values()]).norm())
                if abs(clip.norm - true) > max(_NEAR, evidence.floor) * true:
                    near = abs(clip.norm - own) <= _NEAR * own
                    what = f"clip_grad_norm_ gave {clip.norm:.6g} on rank {rank}, and the norm of all gradients is {true:.6g}"
                    yield SilentError("local-norm" if near else "norm-counts-twice", what, clip.where, step)
                    return
