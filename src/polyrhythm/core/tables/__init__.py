"""Tables of rows that servers keep and workers cache: the requests, the shards, the clocks."""
