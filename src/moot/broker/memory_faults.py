"""Faults that a test or a simulation injects into the broker in memory. Used by memory.py."""

from msgspec import Struct


class Faults(Struct):
    """What goes wrong between the broker and its connections: probabilities, and longest times in seconds."""

    # A message is under way so long; messages that are published at the same time are stored in any order.
    delay: float = 0.0
    # A message is stored, but its sender is not told.
    lost_acknowledgements: float = 0.0
    # A message is stored twice, as if it was published again after the duplicate window.
    duplicates: float = 0.0
    # The connection breaks after a batch was handled and before the broker knows that.
    lost_receipts: float = 0.0
    lost_presence: float = 0.0
    # A receiver waits so long before it takes the next batch.
    slowness: float = 0.0
