"""A background process that owns sessions: many folders in one process, and clients that come and go."""
