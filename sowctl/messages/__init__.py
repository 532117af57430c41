"""Payload bytes to fields and back: one file per message type, listed in ``types.py``."""
