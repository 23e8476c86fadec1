"""The protocol: one .proto file, frames, and the translation of events."""
