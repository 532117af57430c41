"""rows: TODO map."""
