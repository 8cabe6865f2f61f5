"""Jobs by torchrun: one of its agents on each of the hosts of a placement."""
