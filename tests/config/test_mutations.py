"""For any mutation of a configuration, checking gives findings or the single error of an unreadable file.

Elements of the case files and samples are deleted, doubled, moved, renamed and given other texts at random.
"""

from __future__ import annotations

import copy
import random
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.config.elements.element import walk_rows
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.elements.modules import ACTION_MODULES
from sowctl.config.rules.table import index_rules
from sowctl.config.validate import inspect_config, validate_config
from sowctl.findings import Level

ROOT = Path(__file__).parents[2]
SHORT, LONG = 100, 5_000
TAGS = sorted(
    {row.tag for _, row in walk_rows(INSTANCE)}
    | {"Options", "Age", "Every", "Pattern", "BatchSize", "Password", "Include", "Lost"}
)
MODULES = sorted(name for table in ACTION_MODULES.values() for name in table)
TEXTS = [
    *("", " ", "0", "-1", "007", "1.5", "1e400", "9" * 40, "9" * 5000, "9" * 400 + ".5d", "²", "٣", "1.", "1w", "0s"),
    *("5MB", "999999999999TB", "4h", "true", "disabled", "transient", "json", "binary", "orders", "md.fx", ".*"),
    *("[", "(", "a{99999}", "(a+)+$", "^a|b$", "%n", "%", "/", "//", "./x/../y", "/a", "/a/b", "\\", "'", "\u2028"),
    *("a\nb", "a" * 3000, "${HOME}", "${", "${NOBODY}", "{{X}}", "{{", ":memory:", "0.0.0.0:1", "[::]:9007", "9007"),
    *("tcp", "amps-replication", "1=1", "/a = /a", "/a IS NULL OR /a IS NOT NULL", "SUM(/a)", "[orders]./a"),
    *("IF(SUM(/a) > 1, 1, 0) AS /b", "[json].[orders]./a", "[a]./x = [b]./y", "[orders]./a = [orders]./a", "02:00Z"),
    *("Sunday at 03:00", "12-0010", "trace", "async", "rm -rf {{AMPS_DATA}}", "at-least-once", "epoch", "https://a:b@c/"),
]  # fmt: skip


@cache
def originals() -> tuple[ElementTree.Element, ...]:
    files = [*(ROOT / "tests/config/rules/cases").glob("*.xml"), *(ROOT / "samples").rglob("*.xml")]
    trees = []
    for path in sorted(files):
        try:
            trees.append(ElementTree.fromstring(path.read_bytes()))
        except ElementTree.ParseError:
            continue
    return tuple(trees)


def mutated(chance: random.Random) -> bytes:
    """A configuration after one to a dozen changes; sometimes two of the originals are combined."""
    top = copy.deepcopy(chance.choice(originals()))
    if chance.random() < 0.5:
        top.extend(copy.deepcopy(list(chance.choice(originals()))))
    for _ in range(chance.randint(1, 12)):
        parents = {child: parent for parent in top.iter() for child in parent}
        if not parents:
            break
        element = chance.choice(list(parents))
        parent = parents[element]
        change = chance.randrange(7)
        if change == 0:
            parent.remove(element)
        elif change == 1:
            parent.append(copy.deepcopy(element))
        elif change == 2:
            home = chance.choice(list(top.iter()))
            if element not in home.iter() and home not in element.iter():
                parent.remove(element)
                home.insert(chance.randint(0, len(home)), element)
        elif change == 3:
            element.tag = chance.choice(TAGS)
        elif change == 4:
            element.text = chance.choice(TEXTS) if chance.random() < 0.8 else chance.choice(MODULES)
        elif change == 5:
            element.append(ElementTree.Element(chance.choice(TAGS)))
            element[-1].text = chance.choice(TEXTS)
        else:
            element.set(chance.choice(["comment", "Name", "id"]), chance.choice(["true", "false", ""]))
    facts = f"<!-- sowctl: assume cores={chance.choice([0, 1, 64])} memory=1GB largest-message=1MB -->\n"
    return (facts.encode() if chance.random() < 0.5 else b"") + ElementTree.tostring(top)


def test_checking_never_fails(tmp_path: Path, deep: bool) -> None:
    file = tmp_path / "config.xml"

    @settings(
        max_examples=LONG if deep else SHORT,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        database=None,
    )
    @given(st.randoms(use_true_random=False), st.booleans())
    def run(chance: random.Random, fragment: bool) -> None:
        text = mutated(chance)
        file.write_bytes(text)
        findings = inspect_config(file, environment={"HOME": "/home/amps"}, fragment=fragment)
        lines = text.count(b"\n") + 1
        for finding in findings:
            rule = index_rules()[finding.id]
            assert finding.level in (rule.level, rule.also)
            assert finding.message and finding.hint
            assert finding.place.file == str(file)
            assert 1 <= (finding.place.line or 1) <= lines
        errors = validate_config(file, environment={"HOME": "/home/amps"}, fragment=fragment)
        assert errors == [finding for finding in findings if finding.level >= Level.ERROR]

    run()
