"""An interrupt raises KeyboardInterrupt, also where the tests are started in the background, by a shell that has it ignored.

Hypothesis has no deadline for an example: on a machine that others use too, any may take long.
"""

import signal

from hypothesis import settings

signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")
