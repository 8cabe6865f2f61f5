"""Two steps of a program of torch.distributed beside its one-process twin, and detectors of silent errors in what was seen of both."""
