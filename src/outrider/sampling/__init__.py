"""From logits to a law, and from a law to a token: the only place where either happens."""
