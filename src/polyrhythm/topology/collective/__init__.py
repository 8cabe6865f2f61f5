"""Collective exchanges: all workers sum or average together, whole, in buckets, or tensor by tensor."""
