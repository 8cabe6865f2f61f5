"""Calibration of several hosts from one of them, over SSH: an agent on each times its steps, and together they measure their lines."""
