"""The domain model: frozen values and pure functions. Imports nothing of Moot outside this package."""
