"""Documents of texts: reference topics that come with Python, plain text, and the UCI repository's bag of words."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

from polyrhythm.errors import DataError
from polyrhythm.workloads.topics.documents import Documents

_WORD = re.compile(r"[a-z]{2,}")
_LINE = 200
"""Words that make a document of a text that has no paragraphs, such as text8."""
_FEWEST = 2
"""A word that occurs once says nothing of its topic, and a document of one word has nothing to predict."""


def bundled(vocabulary: int) -> Documents:
    """The reference topics of CPython's `help()`, each paragraph a document, of the most frequent words."""
    texts = "\n\n".join(topics[name] for name in sorted(topics))
    return counted(_paragraphs(texts), vocabulary)


def plain_text(path: Path, vocabulary: int) -> Documents:
    """A text file: its paragraphs are the documents; one without any, such as text8, is cut after every 200 words."""
    try:
        text = path.read_text("utf-8", errors="replace").lower()
    except OSError as problem:
        raise DataError(f"{path} cannot be read as text: {problem.strerror}.") from None
    if "\n\n" in text:
        return counted(_paragraphs(text), vocabulary)
    words = _WORD.findall(text)
    return counted((words[start : start + _LINE] for start in range(0, len(words), _LINE)), vocabulary)


def bag_of_words(path: Path) -> Documents:
    """`docword.NAME.txt` or `docword.NAME.txt.gz` of the UCI repository, with `vocab.NAME.txt` beside it, if it is there.

    Three lines have the numbers of documents, words and entries; then each line has a document, a word and a count, counted from 1.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt") as file:
            documents, vocabulary, entries = (int(file.readline()) for _ in range(3))
            table = np.loadtxt(file, dtype=np.int64, ndmin=2).reshape(-1, 3)
    except (OSError, ValueError) as problem:
        raise DataError(
            f"{path} is no bag of words: {problem}. It has three numbers, and then lines of document, word and count."
        ) from None
    if len(table) != entries or not len(table) or table.min() < 1 or table[:, 0].max() > documents or table[:, 1].max() > vocabulary:
        raise DataError(
            f"{path} says {entries} entries of {documents} documents and {vocabulary} words, and has others: {len(table)} entries."
        )
    table = table[np.argsort(table[:, 0], kind="stable")]
    lengths = np.bincount(table[:, 0] - 1, weights=table[:, 2], minlength=documents).astype(np.int64)
    words = np.repeat(table[:, 1] - 1, table[:, 2]).astype(np.int32)
    return Documents(words, np.concatenate([[0], lengths.cumsum()]), vocabulary, _names(path, vocabulary))


def read(path: Path, vocabulary: int) -> Documents:
    """The documents of a file: a bag of words if its name begins with "docword", else text."""
    return bag_of_words(path) if path.name.startswith("docword") else plain_text(path, vocabulary)


def counted(texts: Iterable[list[str]], vocabulary: int) -> Documents:
    """Documents given as words, with the `vocabulary` most frequent of these; word 0 is the most frequent."""
    kept = [text for text in texts if len(text) >= _FEWEST]
    frequent = Counter(word for text in kept for word in text).most_common(vocabulary)
    number = {word: k for k, (word, count) in enumerate(frequent) if count >= _FEWEST}
    found = [[number[word] for word in text if word in number] for text in kept]
    documents = [each for each in found if len(each) >= _FEWEST]
    if not documents:
        raise DataError(f"No document has {_FEWEST} words that occur more than once: give a longer text.")
    return Documents.of(documents, len(number), tuple(number))


def _paragraphs(text: str) -> Iterator[list[str]]:
    for paragraph in re.split(r"\n\s*\n", text.lower()):
        yield _WORD.findall(paragraph)


def _names(path: Path, vocabulary: int) -> tuple[str, ...]:
    beside = path.with_name(path.name.removesuffix(".gz").replace("docword", "vocab", 1))
    if not beside.is_file():
        return ()
    names = tuple(beside.read_text("utf-8").split())
    if len(names) != vocabulary:
        raise DataError(f"{beside} has {len(names)} words, and {path.name} says {vocabulary}: they belong to different data.")
    return names
