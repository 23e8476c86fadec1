"""`moot doctor` and the checks it runs."""
