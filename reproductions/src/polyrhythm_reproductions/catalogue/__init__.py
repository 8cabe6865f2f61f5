"""The experiments, each in a separate file."""
