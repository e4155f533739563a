"""The browser front end: the full-screen app served on a loopback port."""
