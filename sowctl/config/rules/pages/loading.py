"""Pages of the rules that the loader checks: XML, encoding, Include, variables, and its limits."""

from __future__ import annotations

PAGES: dict[str, str] = {
    "X001": """What: the file is not well-formed XML.

        Why: a server rejects the whole file.
        Example: ``<!-- a -- b -->``, a bare ``&``, an end tag without a start tag, two roots, an empty file.
        Instead: write ``&amp;`` for ``&`` and ``&lt;`` for ``<``, close every element, and do not write two hyphens in
        comments.
        """,
    "X002": """What: the file names an external entity or an external document type.

        Why: it could read any file or address that the program can reach; it is refused without being opened.
        Example: ``<!DOCTYPE AMPSConfig SYSTEM "http://host/amps.dtd">``.
        Instead: remove the declaration; to split a configuration write ``<Include>part.xml</Include>``.
        """,
    "X003": """What: the entities of the file expand to more than 5 MB.

        Why: a few lines can fill the memory. The size is computed without expanding them.
        Example: ten entities, each with ten references to the previous one.
        Instead: remove the document type and write the text itself.
        """,
    "X004": """What: the file declares a document type or an entity of its own.

        Why: an entity is not visible in included files, and document types are not supported here at all.
        Example: ``<!DOCTYPE AMPSConfig [<!ENTITY host "h1">]>`` and ``&host;``.
        Instead: use a variable, ``${HOST}``, set in the environment or with ``--define``.
        """,
    "X005": """What: the root element is not AMPSConfig.

        Why: names are case-sensitive, and a configuration has this one root.
        Example: ``<AmpsConfig>``, or a file that begins with ``<SOW>``.
        Instead: put the parts into ``<AMPSConfig>``, or use ``--fragment`` to check a part by itself.
        """,
    "X006": """What: an included file cannot be read, or is outside the directory of the configuration.

        Why: without it the configuration is incomplete. Files outside the tree are never opened.
        Example: ``<Include>logging.xml</Include>`` without that file.
        Instead: write a path relative to the including file that stays below the main file's directory.
        """,
    "X007": """What: a file includes itself or one of the files that include it.

        Why: the expansion would never end.
        Example: ``a.xml`` includes ``b.xml``, and ``b.xml`` includes ``a.xml``.
        Instead: move the common parts into a third file.
        """,
    "X008": """What: the file with its includes, or with the values of variables, exceeds ConfigCycleDetectionThreshold.

        Why: the threshold, 5 MB unless the file says otherwise, is the server's guard against runaway includes.
        Example: one large part included many times, or a long variable written many times.
        Instead: include it once, or raise the threshold.
        """,
    "X009": """What: a variable is neither in the environment, nor defined on the command line, nor built in.

        Why: an empty value would change paths: ``${DATA}/sow`` would become ``/sow``.
        Example: ``<JournalDirectory>${DATA}/journal</JournalDirectory>`` with DATA unset.
        Instead: set the variable, or pass ``--define DATA=/var/amps``.
        """,
    "X010": """What: a variable has its built-in value: AMPS_CONFIG_DIRECTORY, AMPS_CONFIG_PATH or AMPS_VERSION.

        Why: the result of a check depends on the directory of the file and on the assumed version.
        Example: ``<Include>${AMPS_CONFIG_DIRECTORY}/topics.xml</Include>``.
        Instead: no change is needed if this is intended; set the value with ``--define``.
        """,
    "X011": """What: text inside an element that may contain only other elements.

        Why: it is ignored or misread; usually it is a comment in another syntax or part of a broken tag.
        Example: ``<SOW> # the topics <Topic>``.
        Instead: write ``<!-- the topics -->``, or restore the tag.
        """,
    "X012": """What: an element has an attribute.

        Why: the dialect uses elements only; ``comment`` of Include is its one attribute.
        Example: ``<Topic name="orders">``.
        Instead: write an element: ``<Topic><Name>orders</Name>``.
        """,
    "X013": """What: the attribute ``comment`` of an Include is neither true nor false.

        Why: it switches comments around the included text on or off.
        Example: ``<Include comment="yes">logging.xml</Include>``.
        Instead: write ``comment="true"``.
        """,
    "X014": """What: the bytes of the file are invalid in its encoding, or the encoding is not supported.

        Why: no parser can read the text.
        Example: the byte E9, a Latin-1 letter, in a file without a declaration, which is UTF-8.
        Instead: save the file as UTF-8, or declare its actual encoding.
        """,
    "X015": """What: an element has a namespace prefix or declares a namespace.

        Why: the dialect has no namespaces; an element with a prefix is an unknown element.
        Example: ``<amps:Topic>``, or ``<AMPSConfig xmlns="urn:amps">``.
        Instead: write the bare name.
        """,
    "X016": """What: an Include names a relative path.

        Why: it is not documented what a server resolves it against; here it is relative to the including file.
        Example: ``<Include>parts/topics.xml</Include>``.
        Instead: write ``${AMPS_CONFIG_DIRECTORY}/parts/topics.xml``.
        """,
    "X017": """What: the file begins with a byte order mark, or its lines end in carriage return and line feed.

        Why: this is valid XML, but it breaks simple tools, and lines that look the same differ.
        Example: a file saved by an editor on Windows.
        Instead: save it as UTF-8 without a mark, with line feeds.
        """,
    "SOW-CFG-020": """What: the file is larger than 16 MiB.

        Why: a configuration has a few kilobytes; the limit bounds the memory that a file can use.
        Example: a data file named by mistake.
        Instead: name the configuration file, and keep data in other files.
        """,
    "SOW-CFG-021": """What: elements are nested deeper than 64 levels, or includes deeper than 10.

        Why: the dialect needs eight levels; the limit bounds time and memory.
        Example: an end tag that is missing in each of many repeated lines.
        Instead: close the elements, or flatten the includes.
        """,
    "SOW-CFG-022": """What: there are more than 100,000 elements or 1,000 attributes, or 100,000 comments in one file.

        Why: the limit bounds time and memory.
        Example: a generated file with tens of thousands of topics.
        Instead: use a Pattern topic for similar topics.
        """,
    "SOW-CFG-030": """What: the file cannot be read.

        Why: there is no such file, it is a directory, or its permissions forbid it.
        Example: ``sowctl lint amps.xlm``.
        Instead: name a readable file.
        """,
    "SOW-CFG-040": """What: a comment for lint that is invalid, or that names no existing rule.

        Why: it does not switch off any rule, although it was written to do so.
        Example: ``<!-- sowctl: ignore B999 -->``.
        Instead: name rules by id, title or the beginning of an id: ``<!-- sowctl: ignore B012, D because ... -->``.
        """,
    "SOW-CFG-041": """What: a comment that switches off a rule that has no findings there.

        Why: it is obsolete or in the wrong place: it applies to the next element or, before the root element, to its
        file.
        Example: ``<!-- sowctl: ignore D001 -->`` before an element that already has the name Topic.
        Instead: remove the comment, or move it.
        """,
}
