"""raw: TODO map."""
