"""Reports of others, as JSON: read with the schema that is published, and held against the same rules as our own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.findings import ReproductionReport
from polyrhythm_reproductions.protocol import ClaimKind, Efficiency, Scaling
from polyrhythm_reproductions.rules import RULES, problems

_MISSING = re.compile(r"missing required field `(\w+)`(?: - at `\$?\.?(.*)`)?")
_RULES_OF_FIELDS = {
    "metric": 1,
    "final": 1,
    "seconds": 1,
    "split": 2,
    "tuning_runs": 3,
    "hardware": 4,
    "data": 6,
    "data_wait": 6,
    "unit": 7,
    "config": 8,
    "settings": 8,
    "batch": 9,
    "global_batch": 9,
    "dataset": 9,
    "stop": 10,
    "curve": 10,
    "scaling": 11,
    "workers": 11,
    "baseline": 12,
    "seeds": 13,
    "cores": 14,
    "jobs": 14,
    "threads": 14,
    "load": 14,
    "verdict": 15,
    "values": 15,
    "claims": 15,
}
"""The rule that cannot be checked without a field, by its number."""
_SHORT = {each.name.lower(): each.value for each in Efficiency}
_WORDS = {
    "efficiency": [each.value for each in Efficiency],
    "kind": [each.value for each in ClaimKind],
    "scaling": [each.value for each in Scaling],
}


def broken_by(file: Path) -> list[str]:
    """What is wrong with the report in `file`, as sentences that begin with the rule; empty for one that is accepted.

    Raises CompositionError for a file that holds no JSON object, or values of other types than the schema has.
    """
    try:
        data = msgspec.json.decode(file.read_bytes())
    except OSError as problem:
        raise CompositionError(f"{file} cannot be read: {problem.strerror}.") from None
    except msgspec.DecodeError as problem:
        raise CompositionError(f"{file} is no JSON: {problem}.") from None
    if not isinstance(data, dict):
        raise CompositionError(f"{file} holds no JSON object: a report is one, and `polyrhythm validate --schema` prints its schema.")
    _spell_out(data, file)
    try:
        report = msgspec.convert(data, ReproductionReport, strict=False)
    except msgspec.ValidationError as problem:
        if (found := _MISSING.search(str(problem))) is None:
            raise CompositionError(f"{file} does not have the schema of reports: {problem}.") from None
        return [_lacking(found[1], found[2] or "the report")]
    return problems(report)


def schema() -> dict[str, Any]:
    """The JSON schema of reports, with the words that are accepted where only some are."""
    made = msgspec.json.schema(ReproductionReport)
    for name, part in (("Finding", "efficiency"), ("Finding", "kind"), ("ReproductionReport", "scaling")):
        words = [*_WORDS[part], *(_SHORT if part == "efficiency" else ())]
        made["$defs"][name]["properties"][part] |= {"enum": words}
    return made


def _spell_out(data: dict[str, Any], file: Path) -> None:
    """Replace "real" by the words of Efficiency.REAL, and so on. Raises CompositionError for words that mean nothing here."""
    claims = [claim for claim in data.get("claims", ()) if isinstance(claim, dict)] if isinstance(data.get("claims"), list) else []
    for claim in claims:
        if claim.get("efficiency") in _SHORT:
            claim["efficiency"] = _SHORT[claim["efficiency"]]
    for holder, part in [(data, "scaling"), *((claim, name) for claim in claims for name in ("efficiency", "kind"))]:
        if part in holder and holder[part] not in _WORDS[part]:
            words = [*_WORDS[part], *(_SHORT if part == "efficiency" else ())]
            raise CompositionError(f"{file} has {part} {holder[part]!r}: write one of {', '.join(map(repr, words))}.")


def _lacking(field: str, where: str) -> str:
    number = _RULES_OF_FIELDS.get(field)
    if number is None:
        return f"the schema: {where} has no {field}."
    rule = next(rule for rule in RULES if rule.number == number)
    return f"rule {number} ({rule.name}): {where} has no {field}, without which this cannot be checked."
