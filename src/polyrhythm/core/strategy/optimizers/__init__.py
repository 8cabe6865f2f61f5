"""The user's optimizer: whether it can be attached, and which options and arguments its step takes."""
