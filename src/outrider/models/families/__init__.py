"""From a checkpoint's own config to a `DecoderConfig`, one small file for each family."""
