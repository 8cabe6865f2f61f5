"""Weights held by a worker or server, and the optimizer that updates them."""
