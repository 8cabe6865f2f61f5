"""The experiments, each in a file of its own."""
