"""How the shipped drafters were made, as commands that anyone can run again."""
