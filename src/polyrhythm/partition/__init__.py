"""Partitioning: what each rank holds of a model, and what ranks send each other inside of the forward and the backward pass."""
