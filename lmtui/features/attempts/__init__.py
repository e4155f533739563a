"""The commands and the screen of attempts, and the table of their results."""
