"""Kernels of other compilers, emulated."""
