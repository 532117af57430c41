"""verbs: TODO map."""
