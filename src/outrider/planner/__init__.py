"""Measured cost: what a pass costs on this machine."""
