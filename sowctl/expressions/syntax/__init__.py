"""syntax: TODO map."""
