"""What one must do for all is done by the first of a group or of a view: no code asks for rank 0 or the first name by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import polyrhythm

SOURCE = Path(polyrhythm.__file__).parent

ALLOWED = {
    "core/kernel/names.py",  # FIRST: the name for those who have no view
    "core/kernel/group.py",  # `first` and `is_first` themselves
    "core/kernel/mesh.py",  # `first` itself
    "core/kernel/view.py",  # `first` itself
    "core/strategy/plan.py",  # `Participants.first`
    "topology/collective/algorithms/aggregation_tree.py",  # the root of a tree is a place in it
    "process_group/rendezvous.py",  # the ranks of a process group of torch
    "process_group/registration.py",  # the ranks of a process group of torch
    "process_group/network.py",  # the ranks of a process group of torch
    "process_group/messages/roll_call.py",  # torch's monitored_barrier, in which rank 0 asks
    "launchers/attempt.py",  # an attempt has the ranks with which it began
    "core/processes/rendezvous/found.py",  # the ranks of a launcher: rank 0 keeps the store
    "core/processes/rendezvous/places.py",  # the ranks of a launcher
    "core/training/join.py",  # the ranks of a launcher
    "tools/cli/calibrate.py",  # the ranks of a launcher
    "tools/measuring/hosts/host_survey.py",  # the agents that meet: the first has the address
    "tools/measuring/hosts/survey_agent.py",  # and tells what all have measured
    "tools/layouts/spans.py",  # ranks of a mesh that is planned
    "tools/planner/limited.py",  # a training function, as users write them
    "tools/recipes/recipe_check.py",  # a training function
    "tools/recipes/script_recipe.py",  # the ranks of a script of torch.distributed
    "workloads/lasso.py",  # a training function
    "workloads/lda.py",  # a training function
    "integrations/accelerate.py",  # main process, by the user's ranks
    "integrations/keras.py",  # the user's ranks
    "integrations/lightning.py",  # the user's ranks
    "integrations/skorch.py",  # the user's ranks
}


def test_nothing_in_the_package_asks_for_rank_0_instead_of_the_first() -> None:
    found = {str(path.relative_to(SOURCE)): list(_asked(ast.parse(path.read_text()))) for path in sorted(SOURCE.rglob("*.py"))}
    assert {path: lines for path, lines in found.items() if lines and path not in ALLOWED} == {}
    assert {path for path in ALLOWED if not found[path]} == set(), "these need not be allowed"


def test_every_way_to_ask_is_found() -> None:
    asked = "rank == 0; 0 != a.rank; group.members[0]; worker(0); a if g.rank else b\nif not g.rank or x: pass\nwhile rank: pass"
    assert sorted(_asked(ast.parse(asked))) == [1] * 5 + [2, 3]
    assert list(_asked(ast.parse("rank % 2 == 0; group.rank > 1; members[1]; worker(k); g.is_first; names[0]"))) == []


def _asked(tree: ast.AST) -> Iterator[int]:
    """The lines where a rank is compared with 0 or is a condition, the first of `members` is taken, or worker 0 is named."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                hit = (_is_rank(left) and _is_zero(right)) or (_is_zero(left) and _is_rank(right))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
                hit = _is_rank(test)
            case ast.BoolOp(values=values):
                hit = any(map(_is_rank, values))
            case ast.Subscript(value=value, slice=index):
                hit = _named(value) == "members" and _is_zero(index)
            case ast.Call(func=function, args=[argument]):
                hit = _named(function) == "worker" and _is_zero(argument)
            case _:
                hit = False
        if hit:
            yield node.lineno


def _named(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_rank(node: ast.AST) -> bool:
    return _named(node) in ("rank", "global_rank")


def _is_zero(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and not isinstance(node.value, bool)
