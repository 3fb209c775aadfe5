"""Many requests through the loop: submission, scheduling, streaming."""
