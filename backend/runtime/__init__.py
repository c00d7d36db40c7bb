"""Launching compiled kernels: the driver, the tensors of a call, their tensor maps and the launch itself.

Nothing here imports torch, numba or the CUDA bindings before a kernel is launched.
"""
