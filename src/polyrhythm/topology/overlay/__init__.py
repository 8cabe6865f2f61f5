"""Mirrors of shards in every group of workers, with hubs between groups (Gaia's overlay)."""
