"""manual: TODO map."""
