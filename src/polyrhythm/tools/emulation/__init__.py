"""Several hosts on one machine: a command in each network namespace, and a relay that carries packets by a `Network`."""
