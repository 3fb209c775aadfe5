"""Learned drafting heads as plain PyTorch modules, and the files they are exchanged in."""
