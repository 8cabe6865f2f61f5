"""Codecs that send a matrix as factors."""
