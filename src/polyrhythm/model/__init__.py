"""The weights that somebody holds, and the optimizer that steps on them."""
