"""Parameter servers: weights in shards, pushed to and pulled from."""
