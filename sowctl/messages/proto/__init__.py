"""proto: TODO map."""
