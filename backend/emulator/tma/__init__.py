"""What the Tensor Memory Accelerator does with bytes, as functions of NumPy arrays that know no threads.

elements.py: types of a tensor's elements. descriptor.py: a tensor map's fields, rules and 128 bytes. swizzle.py and
placement.py: where a box lies in shared memory. box.py: a box of a tensor in global memory, and its edges. im2col.py: the pixels
of an im2col access. reductions.py: what cp.reduce does.
"""
