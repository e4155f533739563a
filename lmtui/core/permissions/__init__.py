"""Permission rules and decisions, and what shell commands may do.  Pure; only `shell_grammar` imports a parser."""
