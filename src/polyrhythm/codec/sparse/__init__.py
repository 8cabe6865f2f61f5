"""Codecs that send a few components: values, and where they stand."""
