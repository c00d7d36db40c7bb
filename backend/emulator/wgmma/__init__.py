"""Matrix multiplication by warpgroups (PTX 9.7.15): shapes, register fragments, arithmetic and groups."""
