"""The protocol of the styles of modules that are given divided images."""

from __future__ import annotations

from typing import Protocol

from polyrhythm.partition.style import Style


class ImageStyle(Style, Protocol):
    """A way to divide a module that is given images."""

    @property
    def ends(self) -> bool:
        """True if images are divided no more after it."""

    @property
    def by_samples(self) -> bool:
        """True if samples may be divided too."""

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> ImageStyle:
        """The same where samples are divided over the axes `samples`, and images over `axes` by height and by width."""
