"""Jobs on a Ray cluster: a placement group for each gang, on the very nodes that were decided, and an actor for each worker."""
