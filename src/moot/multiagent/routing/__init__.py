"""Decides which agent a request is for: text features, a trained classifier, and agents' own descriptions."""
