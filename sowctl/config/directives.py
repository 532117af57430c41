"""Comments of a configuration that are meant for sowctl: what they begin with.

Their words are in :mod:`sowctl.config.suppressions` (``ignore``), :mod:`sowctl.config.rules.facts` (``assume``) and
:mod:`sowctl.config.recorded_client` (``client``).
"""

from __future__ import annotations

DIRECTIVE_START_PATTERN = r"\s*sowctl(?:-lint)?\s*(?::\s*|\s)"
"""What such a comment begins with; one word that says what it is about follows."""
