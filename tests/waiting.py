"""How long a test waits for what must come: long enough for a machine that does much else, and the only such time."""

PATIENCE_S = 120.0
