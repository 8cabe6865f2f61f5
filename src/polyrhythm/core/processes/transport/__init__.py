"""Frames between processes: sockets, shared memory, connections, and the loop that serves them."""
