"""tilec: a compiler for tile programs."""
