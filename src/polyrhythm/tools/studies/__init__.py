"""Studies: a grid of factors, each cell measured several times, with the missing ones named."""
