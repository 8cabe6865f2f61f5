"""The process group whose members exchange messages."""
