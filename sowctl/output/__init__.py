"""Records, reports and findings to bytes for people and programs."""
