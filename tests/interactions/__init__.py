"""Every pair of features in one conversation of a running daemon; the invariants are checked after each."""
