"""Processes that are started here: the fork server, the settings of the children, and their supervisor.

`Processes` runs its jobs in them, and a joined worker the servers that belong to it.
"""
