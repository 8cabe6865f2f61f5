"""One actor in its process: its coroutines, its program, and what is known of its state."""
