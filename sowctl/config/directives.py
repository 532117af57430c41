"""The start of comments in a configuration that are directives for sowctl.

Their words are parsed by :mod:`sowctl.config.suppressions` (``ignore``), :mod:`sowctl.config.rules.facts` (``assume``)
and :mod:`sowctl.config.recorded_client` (``client``).
"""

from __future__ import annotations

DIRECTIVE_START_PATTERN = r"\s*sowctl(?:-lint)?\s*(?::\s*|\s)"
"""The start of such a comment; the keyword of the directive follows."""
