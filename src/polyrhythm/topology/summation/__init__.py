"""Servers that add up what workers push, and keep no weights (BytePS)."""
