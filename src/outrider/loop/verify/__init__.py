"""Trees of all sequences into one batch, one pass of the target, laws out."""
