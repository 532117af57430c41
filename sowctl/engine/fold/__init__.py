"""fold: TODO map."""
