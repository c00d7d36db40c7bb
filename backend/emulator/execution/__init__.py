"""How programs run: threads in groups, CTAs in clusters, engines beside them, and the order in which they go on."""
