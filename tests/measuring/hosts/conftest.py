"""Hosts without ssh."""

from __future__ import annotations

from host_programs import agent as agent
from host_programs import ssh as ssh
