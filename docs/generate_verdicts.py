"""Writes docs/reproductions/index.md and the package's verdicts.json from the findings in docs/reproductions.

    polyrhythm reproduce --all && python docs/generate_verdicts.py

One test fails when they do not agree with the findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from polyrhythm.reproductions import REPRODUCTIONS
from polyrhythm.reproductions.findings import Findings
from polyrhythm.reproductions.kept import kept
from polyrhythm.reproductions.published import FILE, PublishedVerdict, shown, summed
from polyrhythm.systems import SYSTEMS

FOLDER = Path(__file__).parent / "reproductions"

HEAD = """# Reproductions

*This page is written by `python docs/generate_verdicts.py` from the findings beside it.*

What papers claim beside what is measured here, each by one command, `polyrhythm reproduce NAME`. Bounds were fixed before the first run,
and baselines were tuned like their rivals: see [honest reports](../honest-reports.md). Statistical efficiency (steps, samples, quality;
real gradients) is kept apart from system efficiency (virtual time, on the network and devices that each page names). Models and data are
small and the simulator's machines are not the papers': a claim that is reproduced here holds in this setting, and one that is not may hold
in the paper's.
"""


def text(findings: Sequence[Findings]) -> str:
    """The page."""
    verdicts = [summed(each) for each in findings]
    testable, reproduced = sum(each.testable for each in verdicts), sum(each.reproduced for each in verdicts)
    whole = sum(each.verdict == "reproduced" for each in verdicts)
    lines = [HEAD]
    if testable:
        lines.append(
            f"Of {testable} claims that can be tested here {reproduced} are reproduced ({100 * reproduced / testable:.0f} %); of "
            f"{sum(each.testable > 0 for each in verdicts)} papers {whole} in all of them.\n"
        )
    lines += ["| reproduction | systems | paper | verdict | seeds |", "|---|---|---|---|---|"]
    lines += [_row(each, verdict) for each, verdict in zip(findings, verdicts, strict=True)]
    missing = [name for name in REPRODUCTIONS if name not in {each.name for each in findings}]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    tested = {system for each in REPRODUCTIONS.values() for system in each.systems}
    lines += ["", f"Systems without an experiment: {', '.join(sorted(set(SYSTEMS) - tested)) or 'none'}."]
    return "\n".join(lines) + "\n"


def _row(findings: Findings, verdict: PublishedVerdict) -> str:
    systems = ", ".join(f"`{system}`" for system in findings.systems)
    return f"| [{findings.name}]({findings.name}.md) | {systems} | {findings.paper} | {shown(verdict)} | {verdict.seeds} |"


def verdicts(findings: Sequence[Findings]) -> bytes:
    """The package's copy."""
    return msgspec.json.format(msgspec.json.encode([summed(each) for each in findings]), indent=1) + b"\n"


if __name__ == "__main__":
    every = [findings for findings in kept(FOLDER) if not findings.quick]
    (FOLDER / "index.md").write_text(text(every))
    FILE.write_bytes(verdicts(every))
