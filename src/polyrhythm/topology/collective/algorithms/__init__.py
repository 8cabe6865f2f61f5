"""All-reduce algorithms, such as ring and butterfly, and the encodings of a compressed ring."""
