"""io: TODO map."""
