"""tagged: TODO map."""
