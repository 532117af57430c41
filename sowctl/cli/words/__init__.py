"""words: TODO map."""
