"""Storage of keys and values behind one protocol."""
