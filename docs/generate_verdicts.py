"""Writes docs/reproductions/index.md and the package's verdicts.json from the findings in docs/reproductions.

    polyrhythm reproduce --all && python docs/generate_verdicts.py

Pages are written anew, with the words and bounds that the catalogue has now. One test fails when any of them do not agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from polyrhythm.reproductions import REPRODUCTIONS
from polyrhythm.reproductions.findings import Findings, renewed
from polyrhythm.reproductions.kept import keep, kept
from polyrhythm.reproductions.protocol import Efficiency
from polyrhythm.reproductions.published import FILE, PublishedVerdict, shown, summed
from polyrhythm.reproductions.rules import refuse
from polyrhythm.systems import SYSTEMS

FOLDER = Path(__file__).parent / "reproductions"

HEAD = """# Reproductions

*This page is written by `python docs/generate_verdicts.py` from the findings beside it.*

What papers claim beside what is measured here, each by one command, `polyrhythm reproduce NAME`. Bounds were fixed before the first run;
where settings were changed after one, the page's notes say so. Where learning rates are tuned, all arms have the same grid, with a seed of
its own; elsewhere all arms have one rate, chosen by hand. See [honest reports](../honest-reports.md). Statistical efficiency (steps,
samples, quality; real gradients) is kept apart from system efficiency (virtual time, on the network and devices that each page names).
Models and data are small and the simulator's machines are not the papers': a claim that is reproduced here holds in this setting, and one
that is not may hold in the paper's.
"""


def text(findings: Sequence[Findings]) -> str:
    """The page."""
    verdicts = [summed(each) for each in findings]
    testable, reproduced = sum(each.testable for each in verdicts), sum(each.reproduced for each in verdicts)
    whole = sum(each.verdict == "reproduced" for each in verdicts)
    lines = [HEAD]
    if testable:
        lines.append(
            f"Of {testable} claims that can be tested here {reproduced} are reproduced ({100 * reproduced / testable:.0f} %): "
            f"{_by_kind(findings)}. Of {sum(each.testable > 0 for each in verdicts)} papers {whole} are in all of them.\n"
        )
    lines += ["| reproduction | systems | paper | verdict | seeds |", "|---|---|---|---|---|"]
    lines += [_row(each, verdict) for each, verdict in zip(findings, verdicts, strict=True)]
    missing = [name for name in REPRODUCTIONS if name not in {each.name for each in findings}]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    tested = {system for each in REPRODUCTIONS.values() for system in each.systems}
    lines += ["", f"Systems without an experiment: {', '.join(sorted(set(SYSTEMS) - tested)) or 'none'}."]
    return "\n".join(lines) + "\n"


def _by_kind(findings: Sequence[Findings]) -> str:
    """How many of each kind of claim, for an identity that holds says less than a training that comes out."""
    claims = [claim for each in findings for claim in each.claims if not claim.why_not]
    counts = []
    for efficiency in Efficiency:
        kind = [claim.verdict for claim in claims if claim.efficiency == efficiency.value]
        if kind:
            counts.append(f"{kind.count('reproduced')} of {len(kind)} of {efficiency.value.partition(':')[0]}")
    return ", ".join(counts)


def _row(findings: Findings, verdict: PublishedVerdict) -> str:
    systems = ", ".join(f"`{system}`" for system in findings.systems)
    return f"| [{findings.name}]({findings.name}.md) | {systems} | {findings.paper} | {shown(verdict)} | {verdict.seeds} |"


def verdicts(findings: Sequence[Findings]) -> bytes:
    """The package's copy."""
    return msgspec.json.format(msgspec.json.encode([summed(each) for each in findings]), indent=1) + b"\n"


if __name__ == "__main__":
    every = [renewed(findings, REPRODUCTIONS[findings.name]) for findings in kept(FOLDER) if not findings.quick]
    for findings in every:
        refuse(findings)
        keep(findings, FOLDER)
    (FOLDER / "index.md").write_text(text(every))
    FILE.write_bytes(verdicts(every))
