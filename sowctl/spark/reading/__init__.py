"""reading: TODO map."""
