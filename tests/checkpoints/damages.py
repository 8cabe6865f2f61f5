"""Kinds of damage to a directory with checkpoints, each drawn at random: `DAMAGES` has them by name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file

TENSORS, TEXT, MANIFEST = ".safetensors", ".json", "manifest.json"
Damage = Callable[[Path, list[Path], Random], None]
"""Damages the checkpoint at the path; the others are checkpoints of older steps, of other runs and of other systems."""


def files(folder: Path, *endings: str) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(endings or (TENSORS, TEXT)))


def actors(folder: Path, ending: str) -> list[Path]:
    return [path for path in files(folder, ending) if path.name != MANIFEST]


def _patched(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def _flip(path: Path, offset: int, draw: Random) -> None:
    byte = path.read_bytes()[offset]
    _patched(path, offset, bytes([byte ^ (1 << draw.randrange(8))]))


def _header(path: Path) -> int:
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


def a_bit_of_a_weight(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice([path for path in actors(folder, TENSORS) if path.stat().st_size > _header(path)])
    _flip(path, draw.randrange(_header(path), path.stat().st_size), draw)


def a_bit_of_a_header(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(actors(folder, TENSORS))
    _flip(path, draw.randrange(_header(path)), draw)


def a_bit_of_the_text(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(actors(folder, TEXT))
    _flip(path, draw.randrange(path.stat().st_size), draw)


def a_bit_of_the_manifest(folder: Path, others: list[Path], draw: Random) -> None:
    _flip(folder / MANIFEST, draw.randrange((folder / MANIFEST).stat().st_size), draw)


def a_block_of_zeros(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(files(folder))
    size = path.stat().st_size
    begin = draw.randrange(size)
    _patched(path, begin, bytes(min(draw.choice([1, 16, 512]), size - begin)))


def a_torn_file(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(files(folder))
    os.truncate(path, draw.randrange(path.stat().st_size))


def an_empty_file(folder: Path, others: list[Path], draw: Random) -> None:
    os.truncate(draw.choice(files(folder)), 0)


def a_longer_file(folder: Path, others: list[Path], draw: Random) -> None:
    with draw.choice(files(folder)).open("ab") as file:
        file.write(draw.randbytes(draw.choice([1, 8, 4096])))


def a_missing_file(folder: Path, others: list[Path], draw: Random) -> None:
    draw.choice(files(folder)).unlink()


def an_additional_file(folder: Path, others: list[Path], draw: Random) -> None:
    (folder / draw.choice(["notes.txt", "worker-99.json", "worker-99.safetensors", ".nfs0001"])).write_bytes(draw.randbytes(20))


def two_actors_swapped(folder: Path, others: list[Path], draw: Random) -> None:
    ending = draw.choice([TENSORS, TEXT, ""])
    first, second = draw.sample(actors(folder, TENSORS), 2)
    for each in (ending,) if ending else (TENSORS, TEXT):
        one, other = first.with_suffix(each), second.with_suffix(each)
        held = folder / "held"
        os.replace(one, held)
        os.replace(other, one)
        os.replace(held, other)


def a_file_of_another_checkpoint(folder: Path, others: list[Path], draw: Random) -> None:
    taken = draw.choice(files(draw.choice(others)))
    shutil.copy(taken, folder / taken.name)


def an_actor_of_another_checkpoint(folder: Path, others: list[Path], draw: Random) -> None:
    taken = draw.choice(actors(draw.choice(others), TENSORS))
    for ending in (TENSORS, TEXT):
        shutil.copy(taken.with_suffix(ending), folder / taken.with_suffix(ending).name)


def all_but_the_manifest_of_another_checkpoint(folder: Path, others: list[Path], draw: Random) -> None:
    other = draw.choice(others)
    for taken in [*actors(other, TENSORS), *actors(other, TEXT)]:
        shutil.copy(taken, folder / taken.name)


def a_link_to_another_file(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(files(folder))
    target = draw.choice([*files(draw.choice(others)), path, folder / "nothing", folder])
    path.unlink()
    path.symlink_to(target)


def something_that_is_no_file(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(files(folder))
    path.unlink()
    draw.choice([os.mkfifo, os.mkdir])(path)


def a_name_in_capitals(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice([*files(folder), folder])
    path.rename(path.with_name(path.name.upper()))


def another_value_in_a_whole_file(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice([path for path in actors(folder, TENSORS) if any(value.numel() for value in load_file(path).values())])
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        about = file.metadata()
    changed = tensors[draw.choice([name for name, value in tensors.items() if value.numel()])].view(-1)
    changed[draw.randrange(len(changed))] += 1
    save_file(tensors, path, metadata=about)


def a_huge_header(folder: Path, others: list[Path], draw: Random) -> None:
    length = draw.choice([2**63 - 1, 2**64 - 1, 2**40, 10**8])
    _patched(draw.choice(actors(folder, TENSORS)), 0, length.to_bytes(8, "little"))


def _changed(content: Any, draw: Random) -> Any:
    """`content` with another value at one place."""
    if isinstance(content, dict) and content:
        name = draw.choice(sorted(content))
        return {**content, name: _changed(content[name], draw)}
    if isinstance(content, list) and content:
        place = draw.randrange(len(content))
        return [*content[:place], _changed(content[place], draw), *content[place + 1 :]]
    return draw.choice([other for other in (None, [], {}, "", -1, 10**30, float("nan"), True, "x" * 40) if repr(other) != repr(content)])


def another_value_in_the_text(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(files(folder, TEXT))
    path.write_text(json.dumps(_changed(json.loads(path.read_text()), draw)))


def a_key_twice(folder: Path, others: list[Path], draw: Random) -> None:
    path = draw.choice(files(folder, TEXT))
    text, name = path.read_text(), draw.choice(["step", "run", "seconds", "state", "files"])
    path.write_text(text[: text.rindex("}")] + f', "{name}": 7' + "}")


def deep_nesting(folder: Path, others: list[Path], draw: Random) -> None:
    draw.choice(files(folder, TEXT)).write_text("[" * 100_000)


def another_version(folder: Path, others: list[Path], draw: Random) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": draw.choice([0, 1, 3, -1, 10**9])}))


def the_manifest_of_another_checkpoint(folder: Path, others: list[Path], draw: Random) -> None:
    shutil.copy(draw.choice(others) / MANIFEST, folder / MANIFEST)


def steps_that_changed_names(folder: Path, others: list[Path], draw: Random) -> None:
    older = next(other for other in others if other.parent == folder.parent)
    held = folder.with_name("held")
    folder.rename(held)
    older.rename(folder)
    held.rename(older)


DAMAGES: dict[str, Damage] = {
    damage.__name__.replace("_", " "): damage
    for damage in (
        a_bit_of_a_weight,
        a_bit_of_a_header,
        a_bit_of_the_text,
        a_bit_of_the_manifest,
        a_block_of_zeros,
        a_torn_file,
        an_empty_file,
        a_longer_file,
        a_missing_file,
        an_additional_file,
        two_actors_swapped,
        a_file_of_another_checkpoint,
        an_actor_of_another_checkpoint,
        all_but_the_manifest_of_another_checkpoint,
        a_link_to_another_file,
        something_that_is_no_file,
        a_name_in_capitals,
        another_value_in_a_whole_file,
        a_huge_header,
        another_value_in_the_text,
        a_key_twice,
        deep_nesting,
        another_version,
        the_manifest_of_another_checkpoint,
        steps_that_changed_names,
    )
}
