"""The inner loops of codecs, in C where it was built and in numpy and torch elsewhere."""
