"""The job under other libraries, each as a script that `elastic_peers.py` runs in an environment with that library."""
