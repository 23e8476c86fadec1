"""moot demo: a tour in a home of its own."""
