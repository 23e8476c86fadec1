"""The other daemons as this one knows them: their agents, what they announce, and the keys they sign with."""
