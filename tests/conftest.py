"""An interrupt raises KeyboardInterrupt, also where the tests are started in the background, by a shell that has it ignored."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
