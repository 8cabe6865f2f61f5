"""Runs on the engines that people have: each places, starts and restarts the processes, which then join as workers."""
