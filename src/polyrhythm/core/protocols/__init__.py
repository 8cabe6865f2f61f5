"""The protocols of the pieces of a strategy, and the types that they exchange: traits, requests and responses."""
