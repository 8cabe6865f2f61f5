"""Rows as columns of numpy arrays or tensors: how sources and shards hand them over."""
