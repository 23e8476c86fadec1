"""The vault of secrets and the keys it is sealed with."""
