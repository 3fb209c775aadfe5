"""The files that heads are exchanged in, one spelling a file."""
