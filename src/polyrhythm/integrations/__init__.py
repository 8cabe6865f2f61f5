"""The training loops of other libraries, each as one of many workers; a module for each, imported when it is used.

Those of a library's classes that it wants to be derived from are derived from here, against the rule for our own.
"""
