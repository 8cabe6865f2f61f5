"""Gradients of the whole batch by all workers, and vectors that servers hold and compute with: the dealer, the shards, the coordinator."""
