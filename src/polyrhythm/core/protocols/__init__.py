"""The protocols of the pieces of a strategy, and the types that they exchange: traits, requests and responses.

Packages of the catalogue have their members; `core.strategy` composes and calls them.
"""
