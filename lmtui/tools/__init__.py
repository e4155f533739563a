"""What the model can call: typed arguments in, terse text out; files and commands only through the sandbox port."""
