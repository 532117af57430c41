"""The verbs, one per file, where the rooms meet. Plain values in and out; nothing here prints or exits."""
