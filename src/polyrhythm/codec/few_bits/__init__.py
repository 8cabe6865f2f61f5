"""Codecs that send every component in few bits."""
