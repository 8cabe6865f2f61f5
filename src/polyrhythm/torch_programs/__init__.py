"""Programs of torch.distributed, unchanged, as the workers of a run in virtual time."""
