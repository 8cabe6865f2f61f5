"""What the operating system is asked for, and what it allows."""
