"""topics: TODO map."""
