"""opening: TODO map."""
