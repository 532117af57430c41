"""decode: TODO map."""
