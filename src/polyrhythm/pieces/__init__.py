"""What the five pieces of a strategy are to each other: payloads, patterns, questions, responses and the protocols."""
