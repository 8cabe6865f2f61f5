"""One actor in its process: its coroutines, its program, and what is known of its state.

`spawn` uses it in the processes that are started here, `rendezvous` in processes that join a run.
"""
