"""Many tasks at once: each in an overlay of its own, its checks the judge, its changes a diff to be reviewed."""
