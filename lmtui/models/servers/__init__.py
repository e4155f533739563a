"""What each kind of model server offers: LM Studio, Ollama, llama.cpp and its router."""
