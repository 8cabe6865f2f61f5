"""Polyrhythm."""
