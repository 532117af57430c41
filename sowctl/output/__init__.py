"""Records, reports and findings to bytes for people and programs. In the order in which data passes:

* ``options``: what a caller may choose, checked once
* ``formats``: the table of formats; a format exists if it has a line there
* ``records``: what is printed: batches of records, as protocols
* ``members``: the fields of a payload: members in order, paths, texts
* ``text_columns``: columns of cell texts, of whole batches
* ``columns``: which columns tables have, and their cells
* ``ndjson``: one JSON value a line
* ``jsonarray``: one JSON array
* ``msgpackstream``: a stream of MessagePack maps
* ``arrow_formats``: Parquet files and Arrow streams
* ``raw``: the payloads and nothing else
* ``template``: one text per record
* ``delimited``: csv and tsv
* ``table``: columns for people
* ``onerecord``: one record for a person
* ``exports``: which format a file gets by its ending
* ``charts``: bars and sparklines, and the figures of fields drawn with them
* ``reports``: what a verb did
* ``outline``: names and values, indented
* ``facts``: names and what is said of them, for a person
* ``differences/``: differences between two things
* ``linting``: findings, in the formats of people and of other programs
* ``display``: the last step of every text for people: nothing in it can command a terminal
* ``terminal``: standard output where it is a terminal: that step for whatever is written to it
"""
