"""A second implementation of the pages, in plain Python and NumPy: it reads what the programs write and uses no code of theirs.
Nothing here was made to be fast."""
