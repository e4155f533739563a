"""The one table of commands, in parts by where they apply."""
