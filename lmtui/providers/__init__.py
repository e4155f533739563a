"""Model servers: finding them, asking them, and a scripted one for the demo and the tests."""
