"""The real runtime: one operating-system process per worker and per server (Linux), on one host or joined over several.

`polyrhythm.run` uses `Processes` by default; `polyrhythm.join` uses the part under `rendezvous`.
"""

from polyrhythm.core.processes.spawn.launch import Processes as Processes
