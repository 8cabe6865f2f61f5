"""The framework: the kernel, both runtimes, the protocols of pieces, and the loop that drives them. It knows no member of the catalogue."""
