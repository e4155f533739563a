"""Shell commands as permission rules see them: read by a grammar, judged program by program.  Nothing here runs anything."""
