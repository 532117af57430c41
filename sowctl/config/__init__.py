"""The XML configuration: loading, the element table, the typed model, the rules (``sow-config(5)``).

For other rooms: :func:`sowctl.config.instance.load_instance` (every command), :mod:`sowctl.config.model` (what it
returns), :func:`sowctl.config.validate.validate` (all errors), :mod:`sowctl.config.matching` (topic names as patterns).
"""
