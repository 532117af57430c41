"""xml: TODO map."""
