"""Exchanges in levels: groups, the exchange within each, and the one between them."""
