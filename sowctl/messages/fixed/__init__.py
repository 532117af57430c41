"""fixed: TODO map."""
