"""Laws over configurations generated from the element table: printing and irrelevant order keep the meaning."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sowctl.config import show
from sowctl.config.difference import find_differences
from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.equivalence import compute_fingerprint
from sowctl.config.items import Item
from sowctl.config.load import read_document
from tests.support.examples import examples

TEXTS = {
    "string": ["a", "b c", "^x.*", "ä < & > \"'"],
    "text": ["", "a remark\n  of lines"],
    "path": ["./a//b", "/c"],
    "field": ["/a", "/a/b[0]", "[/odd name]"],
    "interval": ["5m", "300S", "0.5h", "1w"],
    "bytes": ["64MB", "65536k", "0.5G"],
    "count": ["1k", "1000", "1M"],
    "byte": ["1", "28"],
    "switch": ["true", "DISABLED", "enabled", "False"],
    "expiration": ["disabled", "ENABLED", "90s"],
    "expiration:queue": ["90s"],
    "recovery": ["epoch", "NOW", "2026-01-02T03:04:05Z"],
    "recovery:queue": ["creation", "epoch"],
    "address": ["9000", "localhost:9000", "[::1]:9000"],
    "percent": ["50", "50%", "12.5 %"],
    "octal": ["640", "0640"],
    "level": ["info", "Info,warning"],
    "version": ["5.3.5"],
    "tls": ["TLSv1.2  TLSv1.3", "TLSv1.2\nTLSv1.3"],
    "struct": ["/a = <4s"],
    "exclude": ["txlog, sow"],
    "regex": ["a", "^b.*"],
    "join": ["[a]./b = [c]./d", "[a]./b=[c]./d"],
    "grouping": ["/a", "[a]./b"],
    "projection": ["/a", "/a AS /a", "SUM( /b ) as /c"],
    "preprocessing": ["/a AS /b"],
    "enrichment": ["/a  +1 AS /b HINT OPTIONAL"],
    "enrichment:conflated": ["/a AS /b"],
    "priority": ["/p", "/p*2"],
}
FILTERS = ["/a = 1", "/a=1", "(/a = 1) and /b > 'x'", "no ( expression"]


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def written(row: Element, random: Random, depth: int = 0) -> str:
    """A random element of a row, as XML."""
    tag = random.choice((row.tag, *(name for name, _ in row.synonyms)))
    if row.kind in ("section", "open", "mixed"):
        parts = []
        for child in row.children:
            least = 1 if child.is_required else 0
            most = least if child.is_single else 3
            count = random.randint(least, max(most, least + (child.times == "0..1")))
            if child.kind in ("section", "open") and not child.is_required and random.random() < 0.4:
                count = 0
            parts += [written(child, random, depth + 1) for _ in range(count)]
        random.shuffle(parts)
        return f"<{tag}>{''.join(parts)}</{tag}>"
    if row.kind == "opaque":
        return f"<{tag}><Age>60m</Age><Key>/a</Key><Deep><Age> x </Age></Deep></{tag}>"
    bounds = [bound for bound in (row.low, row.high) if bound is not None]
    texts = list(row.values) or bounds or (FILTERS if row.kind.startswith("filter") else TEXTS[row.kind])
    return f"<{tag}>{escaped(random.choice(texts))}</{tag}>"


def shuffled(item: Item, random: Random) -> Item:
    """The same with children of different names in another order, if the order has no meaning."""
    children = [shuffled(child, random) for child in item.children]
    if item.tag not in ("SOW", "Action"):
        places = [child.tag for child in children]
        random.shuffle(places)
        queues = {tag: iter([child for child in children if child.tag == tag]) for tag in places}
        children = [next(queues[tag]) for tag in places]
    return replace(item, children=tuple(children))


def reread(item: Item, path: Path) -> Item:
    path.write_text("\n".join(show.format_xml(item)), encoding="utf-8")
    return show.build_typed_items(read_document(path, environment={}))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_what_is_printed_means_the_same_in_any_idle_order(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "drawn.xml"
    path.write_text(written(INSTANCE, random), encoding="utf-8")
    document = read_document(path, environment={})
    item = show.build_typed_items(document)
    again = reread(item, tmp_path / "again.xml")
    assert list(find_differences(item, again)) == []
    assert show.build_values(again) == show.build_values(item)
    assert compute_fingerprint(again) == compute_fingerprint(item)
    other = reread(shuffled(item, random), tmp_path / "other.xml")
    assert list(find_differences(item, other)) == []
    assert compute_fingerprint(other) == compute_fingerprint(item)
    plain = reread(show.build_expanded_items(document), tmp_path / "plain.xml")
    assert list(find_differences(item, plain)) == []


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_differences_are_there_in_both_directions(tmp_path: Path, first: int, second: int) -> None:
    items = []
    for number, seed in enumerate((first, second)):
        path = tmp_path / f"{number}.xml"
        path.write_text(written(INSTANCE, Random(seed)), encoding="utf-8")
        items.append(show.build_typed_items(read_document(path, environment={})))
    there, back = (list(find_differences(*pair)) for pair in (items, items[::-1]))
    mirrored = {"added": "removed", "removed": "added"}
    assert sorted(d.change for d in there) == sorted(mirrored.get(d.change, d.change) for d in back)
    assert (not there) == (compute_fingerprint(items[0]) == compute_fingerprint(items[1]))
