"""The XML configuration: loading, the element table, the typed model, the rules."""
