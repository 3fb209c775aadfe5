"""Training what drafts for a target: small models and heads, on text that the target wrote itself."""
