"""What a cut costs, before anything runs: `explain`."""

from polyrhythm.partition.explained.explain import explain as explain
