"""Measures Moot beside a raw client on the same loopback server: `./dev bench`."""
