"""What the user holds: run, join, Worker."""
