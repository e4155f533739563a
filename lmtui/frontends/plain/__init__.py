"""The linear mode: one line after the other, for screen readers and for terminals that cannot place a cursor."""
