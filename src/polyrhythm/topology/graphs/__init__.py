"""Graphs of neighbours, and the weights with which neighbours mix."""
