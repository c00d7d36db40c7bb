"""Matrix multiplication by warps (PTX 9.7.14): shapes and register fragments."""
