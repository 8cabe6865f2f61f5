"""Weights as streams of datagrams, of which some are lost."""
