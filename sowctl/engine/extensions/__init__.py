"""extensions: TODO map."""
