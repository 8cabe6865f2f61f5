"""Codecs that remember: errors of earlier rounds, and momenta."""
