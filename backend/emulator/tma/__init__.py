"""The Tensor Memory Accelerator: bulk copies, with tensor maps and without.

What it does with bytes, as functions of NumPy arrays that know no threads: elements.py, types of a tensor's elements;
descriptor.py, a tensor map's fields, rules and 128 bytes; swizzle.py and placement.py, where rows lie in shared memory; box.py and
im2col.py, which elements of a tensor an access names, and its edges; access.py, one access as a whole; packed.py and tf32.py, elements
that change on their way; reductions.py, what cp.reduce does.

What ties it to a launch: maps.py, how instructions find a map; proxy.py, the fences that a changed map needs; targets.py, the CTAs
and mbarriers that a copy names; transfer.py, copies as asynchronous work.
"""
