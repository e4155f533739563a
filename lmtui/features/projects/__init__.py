"""The folders that the user works in: which there are, how their plans are, and going to another."""
