"""The package's names: what type checkers see is what is imported when it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import polyrhythm

ROOT = Path(__file__).resolve().parents[1]


def promised() -> dict[str, tuple[str, str]]:
    """The imports under TYPE_CHECKING: name to (module, name there)."""
    tree = ast.parse(Path(polyrhythm.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_promised_name_is_the_one_that_is_imported() -> None:
    assert set(promised()) == set(polyrhythm.__all__)
    for name, (module, there) in promised().items():
        __import__(module)
        assert getattr(polyrhythm, name) is getattr(sys.modules[module], there, sys.modules.get(f"{module}.{there}"))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = polyrhythm.no_such_thing


def test_the_root_does_not_import_torch() -> None:
    code = "import sys, polyrhythm; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_name_is_one_class() -> None:
    places: dict[str, list[str]] = {}
    for folder in (ROOT / "src", ROOT / "reproductions" / "src"):
        for file in sorted(folder.rglob("*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_root_has_few_names() -> None:
    assert len(polyrhythm.__all__) <= 64


def test_a_piece_that_is_looked_up_in_the_root_is_found_for_the_user() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'TopK': did you mean pr.codec.TopK\?"):
        _ = polyrhythm.TopK


def test_files_and_functions_are_short() -> None:
    for folder in (ROOT / "src", ROOT / "reproductions" / "src"):
        for file in sorted(folder.rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            assert text.count("\n") <= 300, file
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                    documented = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
                    assert node.end_lineno - node.lineno + 1 - documented <= 45, (file, node.name)


def test_no_module_of_partitions_asks_which_piece_another_is() -> None:
    """A loss is what users give, a function or an object with one; and what was recorded refers to itself."""
    folder = ROOT / "src" / "polyrhythm" / "partition"
    nodes = [(file, node) for file in sorted(folder.rglob("*.py")) for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    pieces = {n.name for _, n in nodes if isinstance(n, ast.ClassDef) and any("frozen=True" in ast.unparse(d) for d in n.decorator_list)}
    calls = [(file, node) for file, node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"]
    asked = {(file.name, name.id) for file, call in calls for name in ast.walk(call.args[1]) if isinstance(name, ast.Name)}
    assert {each for each in asked if each[1] in pieces} == {("deferred.py", "_View"), ("layout.py", "MeanLoss")}
