"""The filter and expression language: text to nodes to generated code. Sees slots of values, never a payload."""
