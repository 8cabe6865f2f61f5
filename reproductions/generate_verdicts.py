"""Writes docs/reproductions/index.md, docs/named-things.md and the package's verdicts.json from the findings in docs/reproductions.

    polyrhythm reproduce --all && python reproductions/generate_verdicts.py

Pages are written anew, with the words and bounds that the catalogue has now. One test fails when any of them do not agree.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from polyrhythm.systems import SYSTEMS
from polyrhythm.systems.published_verdicts import FILE, MEDIAN_ONLY, NOT_REPRODUCED, REPRODUCED, PublishedVerdict, shown
from polyrhythm_reproductions.findings import Finding, ReproductionReport, renewed, summed
from polyrhythm_reproductions.kept import keep, kept
from polyrhythm_reproductions.protocol import ClaimKind, Efficiency
from polyrhythm_reproductions.registry import REPRODUCTIONS
from polyrhythm_reproductions.rules import refuse

FOLDER = Path(__file__).parents[1] / "docs" / "reproductions"

HEAD = """# Reproductions

*This page is written by `python reproductions/generate_verdicts.py` from the findings beside it.*

What papers claim beside what is measured here, each by one command, `polyrhythm reproduce NAME`. A claim is reproduced if every seed is
within its bounds, *in the median only* if the median is and some seed is not, and not reproduced otherwise. An effect must differ from
none, in the direction that the paper names; *no worse* is within a margin, and a value is a count, an identity or a formula. Bounds were
fixed before the first run; where one was changed after it, its row says from what and why, and where settings were, the page's notes do.
Where learning rates are tuned, all arms have the same grid, with a seed of its own; elsewhere all arms have one rate, chosen by hand. See
[honest reports](../honest-reports.md). Statistical efficiency (steps, samples, quality; real gradients) is kept apart from system
efficiency (virtual time, on the network and devices that each page names). Models and data are small and the simulator's machines are not
the papers': a claim that is reproduced here holds in this setting, and one that is not may hold in the paper's.
"""


def text(findings: Sequence[ReproductionReport]) -> str:
    """The page."""
    verdicts = [summed(each) for each in findings]
    testable = sum(each.testable for each in verdicts)
    lines = [HEAD]
    if testable:
        lines += [_totals(findings), "", "| | reproduced | in the median only | not reproduced |", "|---|---|---|---|"]
        lines += [*_kinds(findings), ""]
    lines += ["| reproduction | systems | paper | verdict | seeds |", "|---|---|---|---|---|"]
    lines += [_row(each, verdict) for each, verdict in zip(findings, verdicts, strict=True)]
    missing = [name for name in REPRODUCTIONS if name not in {each.name for each in findings}]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    tested = {system for each in REPRODUCTIONS.values() for system in each.systems}
    lines += ["", f"Systems without an experiment: {', '.join(sorted(set(SYSTEMS) - tested)) or 'none'}."]
    return "\n".join(lines) + "\n"


def _totals(findings: Sequence[ReproductionReport]) -> str:
    claims = [claim for each in findings for claim in each.claims if not claim.why_not]
    reproduced, median = (_count(claims, verdict) for verdict in (REPRODUCED, MEDIAN_ONLY))
    papers = [each.verdict for each in findings if any(not claim.why_not for claim in each.claims)]
    share = f"{100 * reproduced / len(claims):.0f} %"
    return (
        f"Of {len(claims)} claims that can be tested here {reproduced} are reproduced ({share}), {median} in the median only, and "
        f"{len(claims) - reproduced - median} are not. Of {len(papers)} papers {papers.count(REPRODUCED)} are in all of them, and "
        f"{papers.count(MEDIAN_ONLY)} in the median."
    )


def _kinds(findings: Sequence[ReproductionReport]) -> Iterator[str]:
    """How many of each kind of claim, for an identity that holds says less than a training that comes out."""
    claims = [claim for each in findings for claim in each.claims if not claim.why_not]
    rows = {kind.value: [claim for claim in claims if claim.kind == kind.value] for kind in ClaimKind}
    rows |= {each.value.partition(":")[0]: [claim for claim in claims if claim.efficiency == each.value] for each in Efficiency}
    for name, group in rows.items():
        if group:
            counts = (str(_count(group, verdict)) for verdict in (REPRODUCED, MEDIAN_ONLY, NOT_REPRODUCED))
            yield f"| {name} | {' | '.join(counts)} |"


def _count(claims: Sequence[Finding], verdict: str) -> int:
    return sum(claim.verdict == verdict for claim in claims)


def _row(findings: ReproductionReport, verdict: PublishedVerdict) -> str:
    systems = ", ".join(f"`{system}`" for system in findings.systems)
    return f"| [{findings.name}]({findings.name}.md) | {systems} | {findings.paper} | {shown(verdict)} | {verdict.seeds} |"


def verdicts(findings: Sequence[ReproductionReport]) -> bytes:
    """The package's copy."""
    return msgspec.json.format(msgspec.json.encode([summed(each) for each in findings]), indent=1) + b"\n"


if __name__ == "__main__":
    every = [renewed(findings, REPRODUCTIONS[findings.name]) for findings in kept(FOLDER) if not findings.quick]
    for findings in every:
        refuse(findings)
        keep(findings, FOLDER)
    (FOLDER / "index.md").write_text(text(every))
    FILE.write_bytes(verdicts(every))
    subprocess.run([sys.executable, Path(__file__).with_name("generate_named_things.py")], check=True)  # with the new verdicts
