"""Redaction of secrets and personal data: finds them in text, masks them and restores placeholders. Pure."""
