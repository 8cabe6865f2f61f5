"""Workers that send their gradients to every other worker."""
