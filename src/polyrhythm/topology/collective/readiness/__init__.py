"""How workers that compute gradients in different orders agree on which to sum next."""
