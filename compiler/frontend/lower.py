"""Lowering of kernel functions, by its earlier name."""

from tilec.frontend.lowering import Lowered, Output, lower

__all__ = ["Lowered", "Output", "lower"]
