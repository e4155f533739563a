"""Model servers: finding them, asking them, and reading what models answer.  Only this package imports the openai SDK."""
