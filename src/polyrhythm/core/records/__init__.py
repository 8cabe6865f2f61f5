"""What a run leaves behind: events, summary, weights, in memory and in a directory."""
