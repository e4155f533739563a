"""Commands that run where nothing is real, and what they did."""
