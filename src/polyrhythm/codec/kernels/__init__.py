"""The inner loops of codecs, in C where it was built and in torch where not."""
