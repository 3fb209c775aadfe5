"""Other engines on the same prompts and weights, to know where plain decoding stands."""
