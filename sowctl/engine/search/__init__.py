"""search: TODO map."""
