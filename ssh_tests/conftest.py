"""The fixtures of these tests."""

from __future__ import annotations

from ssh_hosts import hosts as hosts
