"""Tensor parallelism: the products of one module are divided among ranks that see the same samples."""
