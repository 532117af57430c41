"""json: TODO map."""
