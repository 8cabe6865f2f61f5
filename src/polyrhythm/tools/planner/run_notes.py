"""Names of the notes that runs of a search leave in their settings, for those that read the results."""

from __future__ import annotations

HELD = "bytes held by worker 0"
"""The note of a run with what its worker 0 holds between steps."""
REAL = "real seconds"
"""The note with how long the run took by the clock."""
LINES = "metered lines"
"""The note with the part of all bytes that each metered line carried."""
CUT = "ended early"
"""The note of a run that was to continue, with the reason why it did not."""
PAUSED = "paused after"
"""The note with the last step of a run that ended early, and may be continued."""
