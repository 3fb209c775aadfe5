"""The algorithm: draft, verify, accept, commit. Start with `step.py`."""
