"""Scripts that open a written model where neither torch nor Polyrhythm is imported; `weighed` runs each in a process of its own."""
