"""The verbs: the loop and what surrounds it. The only package that calls a model."""
