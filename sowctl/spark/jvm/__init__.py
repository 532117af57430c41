"""jvm: TODO map."""
