"""Barriers of all kinds: mbarriers, those of a CTA and of a cluster, and meetings of a warp."""
