"""Pages of the rules about filters, constructed fields, joins and identifiers, ruled by sowctl-expressions(7)."""

from __future__ import annotations

PAGES: dict[str, str] = {
    "S034": """What: a Key, Index or Grouping field is not a field identifier.

        Why: keys, indexes and groups are made of fields, not of expressions.
        Example: ``<Key>id</Key>``.
        Instead: begin with a slash: ``/id``, ``/order/id``, ``/order/@id``.
        """,
    "S035": """What: a filter, a Priority or a BarrierExpression does not parse.

        Why: the entry cannot be created. An action fails each time it runs. A text with ``{{NAME}}`` is complete only
        at run time and is not checked.
        Example: ``<Filter>/status = 'open</Filter>``.
        Instead: correct it at the caret; ``sowctl eval`` tries an expression.
        """,
    "S036": """What: a constructed field does not parse, or has no destination.

        Why: a field consists of an expression, AS, and a field to write.
        Example: ``<Field>SUM(/qty) AS total</Field>``.
        Instead: ``SUM(/qty) AS /total``.
        """,
    "S038": """What: a Join is not one equality of two fields.

        Why: a join is not an expression: it supports no other operators, no functions and no constants.
        Example: ``<Join>[orders]./id &gt; [fills]./order</Join>``.
        Instead: ``[orders]./id = [fills]./order``; several Joins are combined.
        """,
    "F015": """What: OF PREVIOUS where there is no previous record, or OF CURRENT where there is no record at all.

        Why: before the key is known, and in derived topics, the state before the update is not available.
        Example: ``/price OF PREVIOUS`` in Preprocessing or in a ConflatedTopic.
        Instead: compute it in the Enrichment of the Topic.
        """,
    "F016": """What: a topic or message type before a field in a place that sees only one message.

        Why: Preprocessing, Enrichment and most filters see one message of their own topic; only in the Filter of a
        View, a field may name the topic that the view reads.
        Example: ``[orders]./qty`` in Enrichment.
        Instead: write ``/qty``.
        """,
    "F017": """What: an aggregate function outside the Projection of a View.

        Why: aggregates need a group of records.
        Example: ``SUM(/qty) AS /total`` in Enrichment.
        Instead: define a View with Grouping.
        """,
    "F018": """What: a function whose result changes from call to call, in a place that requires a constant result.

        Why: filters of derived topics, queues and replication, barriers and aggregates are evaluated again at other
        times and on other instances.
        Example: ``UNIX_TIMESTAMP() - /time &lt; 60`` in the Filter of a View.
        Instead: store the value with Preprocessing or Enrichment, and compare the stored field.
        """,
    "F035": """What: a Grouping field is an expression.

        Why: records are grouped by unchanged fields of the source.
        Example: ``<Field>UPPER(/region)</Field>`` in Grouping.
        Instead: store the value in a field of the source with Enrichment, and group by it.
        """,
}
