"""The tools with which agents write to each other, and what waits for their answers."""
