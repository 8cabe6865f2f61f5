"""The limit of descriptors that a process raises for itself."""

import resource

from polyrhythm.core.processes.system.descriptors import allow_many


def test_the_soft_limit_becomes_the_hard_one() -> None:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        allow_many()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
