"""llama.cpp from its wheel as a child process, and the model files that are on this machine."""
