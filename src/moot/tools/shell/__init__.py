"""Reading shell commands: their words, their paths, what carries what, and what each program is capable of."""
