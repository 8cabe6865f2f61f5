"""The race of time_to_accuracy.py: the task that all run, our ways and the rivals', and the hosts on which they run."""
