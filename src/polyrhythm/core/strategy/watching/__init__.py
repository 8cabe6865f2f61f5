"""Writes of the user's code to weights and gradients: noticed, kept where they have an effect, refused where they would be lost."""
