"""writing: TODO map."""
