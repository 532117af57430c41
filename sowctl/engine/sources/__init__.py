"""sources: TODO map."""
