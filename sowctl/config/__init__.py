"""The XML configuration: loading, the element table, the typed model, the rules (``sow-config(5)``).

Other packages call :func:`sowctl.config.instance.load_instance` (every command), :mod:`sowctl.config.model` (its
result), :func:`sowctl.config.validate.validate_config` (all errors) and :mod:`sowctl.config.topic_patterns`. In the
order in which a file is processed:

* ``default_config``: finding the configuration if none is given.
* ``includes``: the files of one configuration: includes, variables, limits.
* ``scan``: the position of every tag of an XML text.
* ``doctype``: why a document type is refused.
* ``parse``: bytes to text, tags and elements; the only importer of lxml.
* ``load``: elements to nodes.
* ``document``: the nodes, each with file, line and column.
* ``elements``: the table of elements.
* ``kinds``: the kinds of values that the table names, each with its reader.
* ``node_values``: values of a node's children by the table.
* ``structure``: checks of nodes against the table: names, multiplicity, ranges.
* ``suggestions``: the nearest known word for an unknown one.
* ``expression_texts``: checks of expressions and regular expressions in a configuration.
* ``actions``: Modules, user functions and Actions as values.
* ``schedule``: when an action is due.
* ``derived_entries``: views, conflated topics and queues as values.
* ``model``: the typed configuration.
* ``topic_patterns``: topic names as patterns.
* ``instance``: from a document to the model.
* ``rules``: rules about more than one value.
* ``directives``: the start of comments for sowctl.
* ``recorded_client``: the comment that names the client to record.
* ``suppressions``: comments that switch rules off.
* ``problems``: a rule and a place to a finding, or to the error that stops a command.
* ``validate``: all errors of a configuration.
* ``lint``: all findings of several configurations.
* ``fixes``: ``lint --fix``: fixing findings in the text of the file.
* ``items``: the whole configuration with defaults filled in.
* ``canonical_values``: the canonical text of each value.
* ``config_value``: the base class of the values of a configuration.
* ``equivalence``: comparing the meaning of two elements.
* ``difference``: the differences between two configurations.
* ``show``: a configuration as XML, as plain values, and as an outline.
* ``schema``: the element table as data for ``config schema``.
* ``relaxng``: the element table as a RELAX NG grammar for editors.
* ``new_elements``: new elements and their XML.
* ``initial_config``: the configuration that ``config init`` writes.
* ``additions``: the edits of ``config add`` in the text of a configuration.
"""
