"""Format records, reports and findings for people and programs. In the order of processing:

* ``options``: the options of a renderer, checked once.
* ``formats``: the table of formats.
* ``records``: batches of records for renderers, as protocols.
* ``members``: the fields of a payload: members in order, paths, texts.
* ``text_columns``: columns of cell texts, for whole batches.
* ``columns``: the columns of tables, and their cells.
* ``projection``: ``--columns`` in formats with types.
* ``ndjson``: one JSON value per line.
* ``jsonarray``: one JSON array.
* ``msgpackstream``: a stream of MessagePack maps.
* ``arrow_formats``: Parquet files and Arrow streams.
* ``raw``: the payloads only.
* ``template``: one text per record.
* ``delimited``: csv and tsv.
* ``table``: tables for people.
* ``onerecord``: one record for people.
* ``events``: events of a subscription.
* ``exports``: the format of a file by its extension.
* ``replaced_bytes``: bytes that are not UTF-8 in written records.
* ``charts``: bars and sparklines, and the statistics of fields drawn with them.
* ``reports``: reports of verbs.
* ``outline``: names and values, indented.
* ``facts``: names and their descriptions, for people.
* ``differences``: differences between two things.
* ``linting``: findings, in formats for people and for other programs.
* ``display``: escaping of texts, so that data cannot control a terminal.
* ``terminal``: standard output at a terminal, with all output escaped.
* ``richconsole``: tables and charts drawn by rich.
"""
