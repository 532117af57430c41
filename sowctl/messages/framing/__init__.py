"""framing: TODO map."""
