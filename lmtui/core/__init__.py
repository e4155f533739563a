"""The vocabulary of lmtui: messages, events, ports, permissions, plan, errors.  Pure: no I/O, standard library only."""
