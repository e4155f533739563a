"""From what a model wrote to thinking, text and calls, as it streams.  Pure: no I/O, no clock."""
