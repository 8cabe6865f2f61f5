"""Carries out what `polyrhythm.cluster` decides, on the engines that people have."""
