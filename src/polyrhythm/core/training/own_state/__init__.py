"""State of the user's own code in a checkpoint: found, kept, compared and renewed."""
