"""The user's interface: run, join, Worker."""
