"""composite: TODO map."""
