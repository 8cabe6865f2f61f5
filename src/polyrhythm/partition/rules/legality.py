"""Which rules are legal: each name goes to one axis, and no tensor has two dimensions on the same one."""

from __future__ import annotations

from collections.abc import Mapping

from polyrhythm.errors import CompositionError
from polyrhythm.partition.rules.names import Names


def refuse_illegal(rules: Mapping[str, str], named: Mapping[str, Names]) -> None:
    """Raises CompositionError for rules that divide two dimensions of one tensor over one axis, or a name that no tensor has."""
    known = sorted({each.name for names in named.values() for each in names})
    for name in rules:
        if name not in known:
            raise CompositionError(
                f"The rules divide {name!r}, and no weight has a dimension of that name, but {', '.join(known) or 'none'}: name the "
                "dimensions of weights by partition.rules.dimensions. Batches are divided over the axes that no rule names."
            )
    for tensor, names in named.items():
        seen: dict[str, str] = {}
        for each in names:
            axis = rules.get(each.name)
            if axis is not None and axis in seen:
                raise CompositionError(
                    f"{tensor} has the dimensions {', '.join(name.name for name in names)}, and the rules divide {seen[axis]!r} and "
                    f"{each.name!r} over {axis!r}: one axis divides one dimension of a tensor. Leave one of the two whole."
                )
            if axis is not None:
                seen[axis] = each.name
