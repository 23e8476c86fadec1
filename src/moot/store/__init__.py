"""Durable truth. The only package with SQL in it."""
