"""Number formats and their arithmetic, to the bit."""
