"""Adapters to real weights. Only this room knows checkpoint formats and other model libraries."""
