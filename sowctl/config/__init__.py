"""The XML configuration: loading, the element table, the typed model, the rules (``sow-config(5)``).

For other rooms: :func:`sowctl.config.instance.load_instance` (every command), :mod:`sowctl.config.model` (what it
returns), :func:`sowctl.config.validate.validate_config` (all errors), :mod:`sowctl.config.topic_patterns` (topic names
as patterns). In the order in which a file passes:

* ``default_config``: which file is meant where none is named
* ``includes``: the files of one loading: includes, variables, limits
* ``scan``: where every tag of a text stands
* ``doctype``: why a document type is refused
* ``parse``: bytes to text, tags and elements; plain texts, for commands that only load, without the XML library
* ``load``: elements to nodes
* ``document``: the nodes, each with its place
* ``elements``: the table of elements
* ``kinds``: the kinds of values that the table names, each with its reader
* ``node_values``: values of a node's children by the table
* ``structure``: nodes against the table: names, multiplicity, ranges
* ``suggestions``: did you mean
* ``expression_texts``: expressions and regular expressions in a configuration
* ``actions``: modules, functions and actions as values
* ``schedule``: when an action is due
* ``derived_entries``: views, conflated topics and queues as values
* ``model``: the typed configuration
* ``topic_patterns``: topic names as patterns
* ``instance``: from a document to the model
* ``rules``: the rules that look at more than one value
* ``suppressions``: comments that switch rules off
* ``problems``: a rule and a place to a finding, or to the error that stops a command
* ``validate``: all errors
* ``lint``: all findings over several configurations
* ``items``: the whole configuration with defaults filled in
* ``canonical_values``: one spelling for each value
* ``config_value``: a configuration as a kind of value
* ``equivalence``: whether two elements mean the same
* ``difference``: the differences between two configurations
* ``show``: a configuration as XML, as values and as an outline
* ``schema``: the table as facts
* ``relaxng``: the table as a grammar for editors
* ``initial_config``: a first configuration from a few answers
"""
