"""`chenxing run` and the small tools: chat, one answer, tokens, prompts, perplexity."""
