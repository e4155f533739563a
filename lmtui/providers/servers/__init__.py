"""The kinds of model servers: how each tells what it serves, and how models are loaded and unloaded where it offers that."""
