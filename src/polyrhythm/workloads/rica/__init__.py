"""Reconstruction ICA with local fields: patches of photographs, filters at places, pooling, and the objective with its gradient."""
