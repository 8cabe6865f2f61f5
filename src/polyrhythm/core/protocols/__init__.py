"""What the five pieces of a strategy are to each other: traits, requests, responses and the protocols."""
