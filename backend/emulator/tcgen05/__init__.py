"""Blackwell's tensor memory and what works on it: allocation, accesses in flight, descriptors, layouts and products (PTX 9.7.16)."""
