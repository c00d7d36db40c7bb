"""State spaces: addresses, the bytes behind them, and what is known of each byte of shared memory."""
