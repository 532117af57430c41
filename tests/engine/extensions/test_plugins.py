"""Key generators and functions registered by packages: the examples of sowctl-plugins(7), and error cases."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.options import PublishOptions
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.topics.targets import find_topic
from sowctl.engine.verbs.key import KeyFinder
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.errors import ConfigError, InputError, LimitError
from sowctl.expressions.compiler import compile_filter
from sowctl.expressions.context import Context
from sowctl.expressions.syntax.errors import ExpressionError
from sowctl.identity.keys import build_domain_prefix, compute_key_digest
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
PAGE = Path(__file__).parents[3] / "man" / "sowctl-plugins.7"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_finds_nothing_wrong_with_the_page() -> None:
    command = ["groff", "-man", "-Tascii", "-ww", str(PAGE)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def example(name: str) -> str:
    """Return a block of the manual page as a reader would copy it."""
    match = re.search(rf'(?s)\.\\" example: {re.escape(name)}\n(.*?)\.\\" end\n', PAGE.read_text(encoding="utf-8"))
    assert match is not None, name
    return match[1].replace("\\-", "-").replace("\\e", "\\")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package of one module with its entry points, as pip does: a module and its metadata on the path."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def put(module: str, source: str, points: str) -> None:
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        lines = [re.sub(r'^\[project\.entry-points\."(.*)"\]$', r"[\1]", line) for line in points.splitlines()]
        (info / "entry_points.txt").write_text("\n".join(line.replace('"', "") for line in lines) + "\n")
        monkeypatch.delitem(__import__("sys").modules, module, raising=False)

    return put


def with_modules(xml: str, modules: str) -> str:
    return xml.replace("<SOW>", modules + "<SOW>")


MODULE = "<Modules><Module><Name>{}</Name><Library>lib.so</Library></Module></Modules>"


def generated(make_lab: MakeLab, generator: str = "", logged: tuple[str, ...] = ("g",)) -> Lab:
    topic = topic_xml("g", generator or example("generator.xml"), key=None)
    return make_lab(with_modules(config_xml(topic, logged), MODULE.format("account-keys")))


def test_the_key_generator_of_the_page(make_lab: MakeLab, install: Callable[..., None]) -> None:
    install("acme_keys", example("acme_keys.py"), example("entry_points.txt key"))
    lab = generated(make_lab)
    lab.publish("g", message(account="ABCD", order=7, v=1), message(account="ABXX", order=7, v=2))
    assert [json.loads(text)["v"] for text in lab.query("g")] == [2]
    record = lab.records("g")[0]
    assert record.key == compute_key_digest(build_domain_prefix("g"), (b"AB/7",))[:8]
    with pytest.raises(InputError) as caught:
        lab.publish("g", message(account="ABCD"))
    assert (caught.value.code, "no account or no order" in caught.value.message) == ("SOW-PUB-016", True)
    assert lab.open().topic("g").delete(data=[message(account="AB", order=7).encode()]).deleted == 1


def test_generated_keys_are_told_and_rebuilt(make_lab: MakeLab, install: Callable[..., None]) -> None:
    install("acme_keys", example("acme_keys.py"), example("entry_points.txt key"))
    lab = generated(make_lab)
    instance = lab.open()
    teller = KeyFinder(instance, find_topic(instance, "g"), PublishOptions())
    keys, refused = teller.find_keys([message(account="ABC", order=1).encode(), b"{}", b"nonsense"])
    assert [key.texts for key in keys] == [("AB/1",)]
    assert [refusal.code for refusal in refused] == ["SOW-PUB-016", "SOW-MSG-002"]
    lab.publish("g", message(account="ABC", order=1))
    assert str(lab.records("g")[0].sow_key) == keys[0].sow_key
    before = lab.digest("g")
    lab.forget("g")
    lab.open().topic("g").replay(rebuild=True)
    assert lab.digest("g") == before


SOURCES = {
    "raises": "class G:\n  fields = ('/a',)\n  def __init__(self, o): pass\n  def key(self, t, p): return 1 / 0\n",
    "none": "class G:\n  fields = ()\n  def __init__(self, o): pass\n  def key(self, t, p): return None\n",
    "number": "class G:\n  fields = ()\n  def __init__(self, o): pass\n  def key(self, t, p): return 7\n",
    "options": "class G:\n  def __init__(self, o): raise KeyError('Letters')\n",
    "keyless": "class G:\n  fields = ()\n  def __init__(self, o): pass\n",
    "fieldless": "class G:\n  def __init__(self, o): pass\n  def key(self, t, p): return 'x'\n",
    "path": "class G:\n  fields = ('a',)\n  def __init__(self, o): pass\n  def key(self, t, p): return 'x'\n",
    "import": "import no_such_module_anywhere\n",
    "payload": "class G:\n  fields = ()\n  def __init__(self, o): pass\n  def key(self, t, p): return p[:6]\n",
}
POINTS = "[sowctl.key_generators]\naccount-keys = odd_{}:G\n"


@pytest.mark.parametrize("name", ["raises", "none", "number"])
def test_a_generator_that_gives_no_key_refuses(make_lab: MakeLab, install: Callable[..., None], name: str) -> None:
    install(f"odd_{name}", SOURCES[name], POINTS.format(name))
    lab = generated(make_lab, logged=())
    with pytest.raises(InputError) as caught:
        lab.publish("g", message(a=1))
    assert caught.value.code == "SOW-PUB-016"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("options", "SOW-ENG-052"),
        ("keyless", "SOW-ENG-052"),
        ("fieldless", "SOW-ENG-052"),
        ("path", "SOW-ENG-052"),
        ("import", "SOW-ENG-048"),
    ],
)
def test_a_generator_that_cannot_be_made(make_lab: MakeLab, install: Callable[..., None], name: str, code: str) -> None:
    install(f"odd_{name}", SOURCES[name], POINTS.format(name))
    lab = generated(make_lab, logged=())
    with pytest.raises(ConfigError) as caught:
        lab.publish("g", message(a=1))
    assert caught.value.code == code


def test_a_generator_may_look_at_the_payload(make_lab: MakeLab, install: Callable[..., None]) -> None:
    install("odd_payload", SOURCES["payload"], POINTS.format("payload"))
    topic = topic_xml("g", example("generator.xml"), key=None).replace(">json<", ">binary<")
    lab = make_lab(with_modules(config_xml(topic, ()), MODULE.format("account-keys")))
    lab.publish("g", b"\x00abcde-1", b"\x00abcde-2", b"\x01abcde-3")
    assert sorted(record.payload for record in lab.records("g")) == [b"\x00abcde-2", b"\x01abcde-3"]


def test_two_packages_of_one_name_are_a_mistake(make_lab: MakeLab, install: Callable[..., None]) -> None:
    install("odd_none", SOURCES["none"], POINTS.format("none"))
    install("odd_number", SOURCES["number"], POINTS.format("number"))
    lab = generated(make_lab, logged=())
    with pytest.raises(ConfigError) as caught:
        lab.publish("g", message(a=1))
    assert caught.value.code == "SOW-ENG-051"


# functions


def with_functions(make_lab: MakeLab, *parts: str, extra: str = "") -> Lab:
    xml = config_xml(topic_xml("t", *parts), ("t",))
    return make_lab(with_modules(xml, example("functions.xml") + extra))


@pytest.fixture
def acme(install: Callable[..., None]) -> None:
    install("acme_functions", example("acme_functions.py"), example("entry_points.txt functions"))


@pytest.mark.usefixtures("acme")
def test_the_functions_of_the_page(make_lab: MakeLab) -> None:
    fields = "<Field>MIDPOINT(/bid, /ask) AS /mid</Field><Field>TICKET() AS /ticket</Field>"
    lab = with_functions(make_lab, f"<Enrichment>{fields}</Enrichment>")
    lab.publish("t", message(id=1, bid=1, ask=2), message(id=2, bid=3.5), message(id=3, bid=1, ask=4))
    found = {row["id"]: row for row in map(json.loads, lab.query("t"))}
    assert [found[n]["mid"] for n in (1, 2, 3)] == [1.5, None, 2.5]
    assert len({row["ticket"] for row in found.values()}) == 3
    assert [json.loads(text)["id"] for text in lab.query("t", "midpoint(/bid, /ask) > 2")] == [3]
    assert lab.open().topic("t").delete(filter="MIDPOINT(/bid, /ask) IS NULL").deleted == 1


@pytest.mark.usefixtures("acme")
def test_groups_of_many_records_call_them_too(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the same by columns as row by row: in a query, and in a view with joined rows."""
    fields = "<Field>/g</Field><Field>SUM(MIDPOINT(/id, 4)) AS /sum</Field>"
    view = (
        "<View><Name>sums</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
        f"<Projection>{fields}</Projection><Grouping><Field>/g</Field></Grouping></View>"
    )
    xml = config_xml(topic_xml("t") + view, ("t",))
    lab = make_lab(with_modules(xml, example("functions.xml")))
    lab.publish("t", *(message(id=n, g="xy"[n % 2]) for n in range(40)))
    for least in (1 << 60, 0):
        monkeypatch.setattr(QUERY_LIMITS, "lasting_array_min_rows", least)
        monkeypatch.setattr(VIEW_LIMITS, "min_column_records", least)
        asked = {"projection": "/g, SUM(MIDPOINT(/id, 4)) AS /sum", "grouping": "/g", "index_from": None}
        for found in (lab.query("t", **asked), lab.query("sums")):
            assert sorted(found) == ['{"g":"x","sum":230.0}', '{"g":"y","sum":240.0}']
        shutil.rmtree(lab.store("t").parent / "t.json.sow-views")


@pytest.mark.usefixtures("acme")
def test_what_is_not_deterministic_is_kept_out_of_views(make_lab: MakeLab) -> None:
    functions = load_functions(with_functions(make_lab).open())
    assert sorted(functions) == ["MIDPOINT", "TICKET"]
    compile_filter("MIDPOINT(/a, /b) > 1", Context.VIEW_FILTER, functions)
    compile_filter("TICKET() > 1", Context.QUERY_FILTER, functions)
    with pytest.raises(ExpressionError) as caught:
        compile_filter("TICKET() > 1", Context.VIEW_FILTER, functions)
    assert caught.value.code == "SOW-EXP-012"
    with pytest.raises(ExpressionError) as caught:
        compile_filter("MIDPOINT(/a) > 1", Context.QUERY_FILTER, functions)
    assert caught.value.code == "SOW-EXP-011"


def test_a_function_that_nobody_registers_is_missed_when_it_is_called(make_lab: MakeLab) -> None:
    lab = with_functions(make_lab)
    lab.publish("t", message(id=1, bid=1))
    assert len(lab.query("t", "/bid = 1")) == 1
    with pytest.raises(ConfigError) as caught:
        lab.query("t", "MIDPOINT(/bid, /ask) > 1")
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-060", 4)
    assert "sowctl.functions" in str(caught.value.hint)


ODD = """
def explode(*values): raise RuntimeError("no")
def shape(value): return [value]
def same(value): return value
def kind(value): return type(value).__name__
def many(*values): return len(values)
def none(): return None
def large(): return 1 << 70
def count(value):
    global calls
    calls += 1
    return calls
calls = 0
"""
NAMES = {
    "EXPLODE": None,
    "SHAPE": 1,
    "SAME": 1,
    "KIND": 1,
    "MANY": None,
    "NONE_": 0,
    "LARGE": 0,
    "COUNTED": 1,
    "GONE": 1,
}
SYMBOLS = {"NONE_": "none", "COUNTED": "count"}


@pytest.fixture
def odd(make_lab: MakeLab, install: Callable[..., None]) -> Lab:
    install("odd_functions", ODD, "[sowctl.functions]\nodd = odd_functions\n")
    rows = "".join(
        f"<Function><Name>{name.lower()}</Name><Module>odd</Module><Symbol>{SYMBOLS.get(name, name.lower())}</Symbol>"
        + (f"<ParameterCount>{count}</ParameterCount>" if count is not None else "")
        + "</Function>"
        for name, count in NAMES.items()
    )
    modules = MODULE.format("odd") + f"<UserDefinedFunctions>{rows}</UserDefinedFunctions>"
    fields = "<Enrichment><Field>EXPLODE(/x) AS /y HINT OPTIONAL</Field></Enrichment>"
    topics_xml = topic_xml("t") + topic_xml(
        "e", "<Enrichment><Field>IF(/x > 1, EXPLODE(/x), 0) AS /y</Field></Enrichment>"
    )
    lab = make_lab(with_modules(config_xml(topics_xml + topic_xml("never", fields), ("t", "e")), modules))
    lab.publish("t", '{"id":1,"n":1.50,"s":"\\u00e4","b":true,"l":[3,4],"o":{"p":1},"z":null}')
    return lab


@pytest.mark.parametrize(
    "filter",
    [
        "KIND(/n) = 'float'", "KIND(/id) = 'int'", "KIND(/s) = 'str'", "KIND(/b) = 'bool'", "KIND(/z) = 'NoneType'",
        "KIND(/o) = 'NoneType'", "KIND('x') = 'str'", "KIND(1 + 1) = 'int'", "KIND(/l) = 'int'", "SAME(/l) = 3",
        "SAME(/s) = /s", "SAME(/n) = 1.5", "SAME(/b)", "SAME(/z) IS NULL", "SAME('') IS NULL",
        "SAME('\\xff') = '\\xff'", "MANY() = 0", "MANY(1, /z, 'a') = 3", "NONE_() IS NULL",
        "LARGE() > 18446744073709551615",
        "LENGTH(SAME(/s)) = 2",
        "UPPER(SAME('a')) = 'A'", "SAME(/n) + 1 = 2.5",
    ],
)  # fmt: skip
def test_values_on_their_way_there_and_back(odd: Lab, filter: str) -> None:
    assert len(odd.query("t", filter)) == 1


@pytest.mark.parametrize(
    ("filter", "words"), [("EXPLODE(/n) = 1", "RuntimeError: no"), ("SHAPE(/n) = 1", "function SHAPE")]
)
def test_a_function_that_fails_ends_a_query(odd: Lab, filter: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        odd.query("t", filter)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-EXP-031", 3)
    assert words in caught.value.message
    record = odd.records("t")[0]
    assert (caught.value.place, caught.value.facts["sow_key"]) == ("t", str(record.sow_key))
    assert caught.value.message.startswith(f"record {record.sow_key}: ")


def test_a_function_that_fails_refuses_one_message(odd: Lab) -> None:
    report = odd.publish("e", message(id=1, x=1), message(id=2, x=2), message(id=3, x=1), on_error="skip")
    assert (report.published, report.rejected) == (2, 1)
    with pytest.raises(InputError) as caught:
        odd.publish("e", message(id=4, x=9))
    assert caught.value.code == "SOW-EXP-031"


def test_a_symbol_that_is_not_there(odd: Lab) -> None:
    with pytest.raises(ConfigError) as caught:
        odd.query("t", "GONE(/n) = 1")
    assert caught.value.code == "SOW-ENG-061"


def test_a_function_is_called_once_per_message(odd: Lab) -> None:
    odd.publish("t", *(message(id=n) for n in range(2, 5)))
    assert len(odd.query("t", "COUNTED(/id) > 0")) == 4
    assert len(odd.query("t", "COUNTED(/id) = 5")) == 1


LOOKUPS = "<Modules><Module><Name>x</Name><Library>/lib/libamps_udf_experimental.so</Library>{}</Module></Modules>"


def test_lookups_see_the_other_topic_as_it_is(make_lab: MakeLab) -> None:
    options = "<Options><Lookup>desk;2;json;desks;/name;/book;/site</Lookup></Options>"
    modules = LOOKUPS.format(options)
    field = "<Enrichment><Field>VALUE_LOOKUP('desk', /book, /site) AS /desk</Field></Enrichment>"
    topics_xml = topic_xml("t", field) + topic_xml("desks", "<Expiration>30s</Expiration>")
    lab = make_lab(with_modules(config_xml(topics_xml, ("t", "desks")), modules))
    lab.publish("t", message(id=1, book=1, site="a"))
    lab.publish("desks", message(id=1, book=1, site="a", name="rates"), message(id=2, book=1, site="a", name="fx"))
    lab.publish("t", message(id=2, book=1, site="a"), message(id=3, book=1, site="b"), message(id=4, book=1))
    lab.clock.tick(31)
    lab.publish("t", message(id=5, book=1, site="a"))
    found = {row["id"]: row["desk"] for row in map(json.loads, lab.query("t"))}
    assert found == {1: None, 2: "fx", 3: None, 4: None, 5: None}
    with pytest.raises(ExpressionError):
        lab.query("t", "VALUE_LOOKUP('desk', /book, /site) = 'fx'")


@pytest.mark.parametrize(
    "text",
    ["desk", "desk;2;json;desks;/name;/book", "desk;1;json;nowhere;/name;/book", "desk;1;xml;desks;/name;/book",
     "desk;1;json;desks;name;/book", "desk;one;json;desks;/name;/book"],
)  # fmt: skip
def test_a_lookup_that_cannot_be_used(make_lab: MakeLab, text: str) -> None:
    options = f"<Options><Lookup>{text}</Lookup></Options>"
    modules = (
        f"<Modules><Module><Name>x</Name><Library>libamps_udf_experimental.so</Library>{options}</Module></Modules>"
    )
    field = "<Enrichment><Field>VALUE_LOOKUP('desk', /book) AS /desk</Field></Enrichment>"
    lab = make_lab(with_modules(config_xml(topic_xml("t", field) + topic_xml("desks"), ()), modules))
    with pytest.raises(ConfigError) as caught:
        lab.publish("t", message(id=1))
    assert caught.value.code == "SOW-ENG-062"


def test_the_record_that_a_pattern_runs_away_on_is_named(lab: Lab) -> None:
    lab.publish("t", message(id=1, s="b"), message(id=2, s="a" * 40 + "b"), message(id=3))
    with pytest.raises(LimitError) as caught:
        lab.query("t", "/s LIKE '(a+)+$'")
    bad = lab.records("t", "/id = 2")[0]
    assert caught.value.message.startswith(f"record {bad.sow_key}: ")
