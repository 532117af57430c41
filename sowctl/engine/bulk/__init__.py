"""bulk: TODO map."""
