"""Kernels written as Python functions: `tile` is their vocabulary, `jit` makes them callable."""
