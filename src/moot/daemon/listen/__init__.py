"""The listeners: Unix socket, TCP, HTTP, WebSocket and the OpenAI-compatible endpoint."""
