"""Many tasks at once: each in its own overlay, its checks the judge, its changes a diff to be reviewed."""
