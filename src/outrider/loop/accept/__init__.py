"""Rules that decide how much of a draft is kept, each with what it guarantees."""
