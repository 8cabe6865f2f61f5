"""Negotiations by which workers that compute gradients in different orders agree on which to sum next."""
