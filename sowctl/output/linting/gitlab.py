"""Findings as a code quality report of GitLab, which shows them beside the lines of a merge request."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from sowctl.findings import Finding, Level

_SEVERITIES = {Level.ERROR: "major", Level.WARNING: "minor", Level.INFO: "info", Level.ADVICE: "info"}


def as_gitlab(findings: Iterable[Finding]) -> str:
    """One JSON array, ASCII only. Names of files as given, without a leading ``./``.

    A fingerprint contains no line number, so that a finding stays the same when lines above it change. The second equal
    finding of a file has another fingerprint.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    rows = []
    for finding in findings:
        same = (finding.id, finding.place.file, finding.place.element or "", finding.message)
        rows.append(_finding_row(finding, (*same, str(seen[same]))))
        seen[same] += 1
    return json.dumps(rows, indent=1)


def _finding_row(finding: Finding, same: tuple[str, ...]) -> dict[str, Any]:
    hint = "" if finding.hint is None else f" ({finding.hint})"
    return {
        "description": finding.message + hint,
        "check_name": finding.id,
        "fingerprint": hashlib.sha256("\0".join(same).encode("utf-8", "surrogateescape")).hexdigest()[:40],
        "severity": _SEVERITIES[finding.level],
        "location": {"path": finding.place.file.removeprefix("./"), "lines": {"begin": finding.place.line or 1}},
    }
