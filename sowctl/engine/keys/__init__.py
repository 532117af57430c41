"""keys: TODO map."""
