"""The secret of a run from the text that a user chose."""

from __future__ import annotations

import hashlib
from functools import cache

from polyrhythm.errors import CompositionError

FEWEST_CHARACTERS = 16
# RFC 7914: 32 MiB and about a tenth of a second for each guess
_COST, _BLOCK, _LANES = 1 << 15, 8, 1
_MOST_MEMORY = 64 << 20


@cache
def derive(text: str) -> bytes:
    """The 32 bytes that processes started with the secret `text` have in common (scrypt, RFC 7914).

    The salt is the same everywhere: the processes have nothing else in common yet. Raises CompositionError for a text that is too short.
    """
    if len(text) < FEWEST_CHARACTERS:
        raise CompositionError(
            f"POLYRHYTHM_SECRET has {len(text)} characters, and whoever can reach a process could guess it: give all processes the same of "
            f'{FEWEST_CHARACTERS} or more, such as what `python -c "import secrets; print(secrets.token_hex(16))"` prints.'
        )
    return hashlib.scrypt(text.encode(), salt=b"polyrhythm", n=_COST, r=_BLOCK, p=_LANES, maxmem=_MOST_MEMORY, dklen=32)
