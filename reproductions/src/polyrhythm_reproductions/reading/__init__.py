"""The named things of two reading lists, and where each is: in the code, in a reproduction, on the command line."""
