"""Executes PTX for sm_90a and sm_100a on a CPU, exactly, and explains every fault.

`emulate` runs one kernel of a PTX text: threads in warps that diverge and reconverge, CTAs in clusters, shared and tensor
memory, mbarriers, TMA, and the tensor cores as asynchronous engines. It is written from the rules of the PTX ISA and from
what was measured on hardware, and knows nothing of the compiler that made the text.
"""
