"""Virtual time: one process, a heap of events, flows that share links fairly."""
