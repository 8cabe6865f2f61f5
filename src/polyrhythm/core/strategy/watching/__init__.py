"""Writes of the user's code to weights and gradients: noticed, kept where they are meant, refused where they would be lost."""
