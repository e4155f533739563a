"""A background process that owns the sessions of many folders; clients come and go."""
