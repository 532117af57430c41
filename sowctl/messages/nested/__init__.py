"""nested: TODO map."""
