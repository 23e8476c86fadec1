"""`moot demo`: a tour of Moot in a separate home folder."""
