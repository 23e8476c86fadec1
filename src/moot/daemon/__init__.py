"""The composition root, the listeners and the handlers."""
