"""The model: the result of load_instance for a configuration, and the errors that stop it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.derived_entries import Queue
from sowctl.config.instance import load_instance
from sowctl.config.model import Expiration, History, InstanceConfig, TopicConfig
from sowctl.errors import ConfigError

Write = Callable[..., Path]
JSON = "<MessageType>json</MessageType>"
VIEW = (
    f"<View><Name>v</Name>{JSON}<UnderlyingTopic>a</UnderlyingTopic><Projection><Field>/b</Field></Projection>"
    "<Grouping><Field>/b</Field></Grouping></View>"
)


def load(path: Path, **environment: str) -> InstanceConfig:
    return load_instance(path, environment=environment)


def topic(
    instance: Write, inner: str = "<FileName>x</FileName>", *, log: str = "", name: str = "orders"
) -> TopicConfig:
    return load(instance(f"<Topic><Name>{name}</Name>{JSON}{inner}</Topic>", log=log)).topics[0]


def test_a_whole_topic(instance: Write, tmp_path: Path) -> None:
    path = instance(
        f"""<Topic>
        <Name>orders</Name>{JSON}<Key>/id</Key><Key>/line[0]/sku</Key><KeyDomain>sales</KeyDomain>
        <FileName>./sow/%n.sow</FileName><Durability>Persistent</Durability><RecoveryPoint>NOW</RecoveryPoint>
        <SlabSize>8MB</SlabSize><InitialSlabCount>2</InitialSlabCount><ExpectedKeyCountHint>64k</ExpectedKeyCountHint>
        <HashIndex><Key>/a</Key><Key>/b</Key></HashIndex><HashIndex><Key>/c</Key></HashIndex><Index>/d</Index>
        <History><Window>7d</Window><Granularity>250ns</Granularity></History>
        <Preprocessing><Field>/a AS /b</Field></Preprocessing>
        <Enrichment><Field>/c AS /d</Field><Field>/e AS /f</Field></Enrichment></Topic>""",
        log=f"<Topic><Name>orders</Name>{JSON}</Topic>",
    )
    found = load(path).topics[0]
    assert [str(key) for key in found.keys] == ["/id", "/line[0]/sku"]
    assert (found.key_mode, found.key_domain, found.key_generator) == ("fields", "sales", None)
    assert found.file == tmp_path / "sow/orders.json.sow"
    assert found.file_name == "./sow/%n.sow"
    assert (found.durability, found.recovery_point, found.journalled) == ("persistent", "now", True)
    assert (found.slab_size, found.initial_slab_count, found.expected_key_count_hint) == (8 << 20, 2, 64_000)
    assert [[str(path) for path in index] for index in found.hash_indexes] == [["/a", "/b"], ["/c"]]
    assert [str(path) for path in found.indexes] == ["/d"]
    assert found.history == History(604_800_000_000, 0)
    assert found.preprocessing == ("/a AS /b",)
    assert found.enrichment == ("/c AS /d", "/e AS /f")
    assert (found.place.line, found.place.column) == (4, 1)


def test_defaults(instance: Write) -> None:
    found = topic(instance)
    assert (found.key_mode, found.key_domain) == ("user", "orders")
    assert (found.durability, found.recovery_point) == ("persistent", "epoch")
    assert found.expiration == Expiration("disabled")
    assert (found.slab_size, found.initial_slab_count, found.expected_key_count_hint) == (5 << 20, 1, None)
    assert (found.history, found.pattern, found.journalled) == (None, None, False)


def test_a_slash_in_a_name_is_no_directory(instance: Write, tmp_path: Path) -> None:
    assert topic(instance, "<FileName>%n.sow</FileName>", name="/a/../b").file == tmp_path / "%2Fa%2F..%2Fb.json.sow"


def test_paths_count_from_the_root(instance: Write, tmp_path: Path) -> None:
    sow = f"<Topic><Name>a</Name>{JSON}<FileName>sow/a</FileName></Topic>"
    path = instance(sow, log="<JournalArchiveDirectory>/abs</JournalArchiveDirectory>")
    config = load_instance(path, environment={}, root=Path("elsewhere"))
    assert config.topics[0].file == Path("elsewhere/sow/a")
    assert config.transaction_log is not None
    assert config.transaction_log.directory == Path("elsewhere/journals")
    assert config.transaction_log.archive_directory == Path("/abs")
    assert (config.directory, config.root) == (tmp_path, Path("elsewhere"))


def test_a_transient_topic_has_no_file(instance: Write) -> None:
    found = topic(instance, "<Durability>transient</Durability><FileName>x</FileName>")
    assert (found.file, found.file_name) == (None, "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("enabled", Expiration("enabled")),
        ("Disabled", Expiration("disabled")),
        ("30s", Expiration("interval", 30_000_000)),
        ("5M", Expiration("interval", 300_000_000)),
        ("1500ns", Expiration("interval", 1)),
    ],
)
def test_expiration(instance: Write, text: str, expected: Expiration) -> None:
    assert topic(instance, f"<FileName>x</FileName><Expiration>{text}</Expiration>").expiration == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ("<RecordSize>1kb</RecordSize>", (1024 * 1000, 3)),
        ("<IncrementSize>500</IncrementSize>", (512 * 500, 5)),
        ("<InitialSize>1</InitialSize>", (512 * 1000, 1)),
        ("<RecordSize>1kb</RecordSize><SlabSize>1MB</SlabSize>", (1 << 20, 3)),
        ("<RecordSize>1kb</RecordSize><InitialSlabCount>9</InitialSlabCount>", (1024 * 1000, 9)),
    ],
)
def test_retired_sizes(instance: Write, sizes: str, expected: tuple[int, int]) -> None:
    found = topic(instance, f"<FileName>x</FileName>{sizes}")
    assert (found.slab_size, found.initial_slab_count) == expected


def test_a_key_generator(instance: Write) -> None:
    inner = "<KeyGenerator><Module>m</Module><Options><Key>/a</Key><Key>/b</Key></Options></KeyGenerator>"
    found = topic(instance, "<FileName>x</FileName>" + inner)
    assert found.key_mode == "module"
    assert found.key_generator is not None
    assert (found.key_generator.module, found.key_generator.options) == ("m", (("Key", "/a"), ("Key", "/b")))


def test_old_names(write: Write) -> None:
    path = write(
        "<AMPSConfig><Name>x</Name><TopicMetaData><TopicDefinition><Topic>a</Topic>"
        f"{JSON}<Duration>transient</Duration></TopicDefinition></TopicMetaData>"
        "<TransactionLog><JournalDirectory>j</JournalDirectory><MinJournalSize>20MB</MinJournalSize></TransactionLog>"
        "</AMPSConfig>"
    )
    config = load(path)
    assert (config.topics[0].name, config.topics[0].durability) == ("a", "transient")
    assert config.transaction_log is not None
    assert config.transaction_log.journal_size == 20 << 20


def test_entries_keep_the_order_of_the_file(instance: Write) -> None:
    other = f"{VIEW}<QueueDefinition><Topic>q</Topic>{JSON}</QueueDefinition>"
    path = instance(f"{other}<Topic><Name>a</Name>{JSON}<FileName>f</FileName></Topic>")
    config = load(path)
    assert [(entry.kind, entry.name) for entry in config.sow] == [("View", "v"), ("Queue", "q"), ("Topic", "a")]
    assert config.find_entries("v") == config.sow[:1]
    assert config.find_entries("v", "xml") == ()
    assert isinstance(config.sow[1], Queue)
    assert config.sow[1].node.tag == "QueueDefinition"
    assert config.sow[1].place.line == 4


def test_the_instance_and_its_types(write: Write) -> None:
    path = write(
        "<AMPSConfig><Name>one</Name><Group>all</Group><MessageTypes><MessageType><Name>pair</Name>"
        "<Module>composite-local</Module><MessageType>json</MessageType><MessageType>binary</MessageType></MessageType>"
        "<MessageType><Name>fix</Name><FieldSeparator>1</FieldSeparator></MessageType></MessageTypes></AMPSConfig>"
    )
    config = load(path)
    assert (config.name, config.group, config.sow, config.transaction_log) == ("one", "all", (), None)
    assert [(t.name, t.module, t.settings) for t in config.message_types] == [
        ("pair", "composite-local", {"MessageType": ("json", "binary")}),
        ("fix", "fix", {"FieldSeparator": ("1",)}),
    ]


class TestTransactionLog:
    def test_defaults(self, instance: Write, tmp_path: Path) -> None:
        log = load(instance(log=" ")).transaction_log
        assert log is not None
        assert (log.directory, log.archive_directory) == (tmp_path / "journals", None)
        assert (log.journal_size, log.flush_interval_us, log.preallocated) == (1 << 30, 100_000, 2)
        assert (log.direct_io, log.inactive_client_ack_expiration_us, log.topics) == (True, None, ())

    def test_values(self, instance: Write) -> None:
        inner = "<JournalSize>1KB</JournalSize><FlushInterval>1us</FlushInterval><O_DIRECT>disabled</O_DIRECT>"
        log = load(
            instance(log=inner + "<InactiveClientAckExpiration>1d</InactiveClientAckExpiration>")
        ).transaction_log
        assert log is not None
        assert (log.journal_size, log.flush_interval_us, log.direct_io) == (10 << 20, 1, False)
        assert log.inactive_client_ack_expiration_us == 86_400_000_000

    @pytest.mark.parametrize(
        ("pattern", "covered", "others"),
        [
            ("orders", ["orders"], ["my-orders", "orders2"]),
            ("LOGGED_.*", ["LOGGED_", "a-LOGGED_b"], ["LOGGED"]),
            ("md.fx", ["md.fx", "md-fx", "xmd-fxx"], ["mdfx"]),
            ("^/a/(b|c)$", ["/a/b", "/a/c"], ["/a/bc", "x/a/b"]),
            (r"\d+", ["a1"], ["a"]),
        ],
    )
    def test_names_are_unanchored_patterns(
        self, instance: Write, pattern: str, covered: list[str], others: list[str]
    ) -> None:
        inner = f"<Topic><Name>{pattern}</Name>{JSON}</Topic>"
        log = load(instance(log=inner)).transaction_log
        assert log is not None
        assert all(log.covers_topic(name, "json") for name in covered)
        assert not any(log.covers_topic(name, "json") for name in others)
        assert not log.covers_topic(covered[0], "fix")
        off = "<RegexTopicSupport>false</RegexTopicSupport>"
        literal = load(instance(log=inner, top=off)).transaction_log
        assert literal is not None
        assert [name for name in covered if literal.covers_topic(name, "json")] == [
            name for name in covered if name == pattern
        ]


@pytest.mark.parametrize(
    ("sow", "code"),
    [
        ("<Topic><MessageType>json</MessageType></Topic>", "SOW-CFG-120"),
        ("<Topic><Name>a</Name></Topic>", "SOW-CFG-121"),
        (f"<Topic><Name>a</Name>{JSON}</Topic>", "SOW-CFG-122"),
        (f"<Topic><Name>a</Name>{JSON}<Filename>x</Filename></Topic>", "SOW-CFG-102"),
        (f"<Topic><Name>a</Name>{JSON}<FileName>x</FileName><SlabSize>2GB</SlabSize></Topic>", "SOW-CFG-140"),
        (f"<Topic><Name>a</Name>{JSON}<FileName>x</FileName><Key>id</Key></Topic>", "SOW-CFG-134"),
        (f"<Topic><Name>a</Name>{JSON}<FileName>x</FileName><KeyDomain>d</KeyDomain></Topic>", "SOW-CFG-203"),
        (f"<Topic><Name>a</Name>{JSON}<FileName>x</FileName></Topic>" * 2, "SOW-CFG-320"),
        (VIEW.replace(JSON, ""), "SOW-CFG-121"),
        (VIEW.replace("Grouping>", "Other>"), "SOW-CFG-102"),
        (f"<View><Name>a</Name>{JSON}</View>", "SOW-CFG-137"),
        (f"<Queue><Name>q</Name>{JSON}<MaxBacklog>some</MaxBacklog></Queue>", "SOW-CFG-128"),
        ("</SOW><SOW>", "SOW-CFG-103"),
    ],
)
def test_what_loading_stops_at(instance: Write, sow: str, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(instance(sow))
    assert caught.value.code == code
    assert caught.value.exit_status == 4
    assert ".xml:" in (caught.value.place or "")


def test_an_expression_is_not_looked_at(instance: Write) -> None:
    found = topic(instance, "<FileName>x</FileName><Enrichment><Field>this is (no expression</Field></Enrichment>")
    assert found.enrichment == ("this is (no expression",)


def test_loading_imports_neither_parser_nor_patterns(instance: Write) -> None:
    """The start-up budget of every command depends on this."""
    path = instance(
        f"<Topic><Name>a</Name>{JSON}<FileName>x</FileName><Enrichment><Field>/a AS /b</Field></Enrichment></Topic>",
        log=f"<Topic><Name>a-b/c</Name>{JSON}</Topic><Topic><Name>^LOGGED_.*</Name>{JSON}</Topic>",
    )
    code = (
        "import sys\nfrom sowctl.config.instance import load_instance\n"
        "load_instance(sys.argv[1], environment={})\n"
        "late = ('lark', 'pcre2', 'numpy', 'sowctl.expressions.syntax.parser')\n"
        "print([m for m in late if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_stands_elsewhere_and_says_the_same_is_equal(tmp_path: Path) -> None:
    one, other = tmp_path / "one.xml", tmp_path / "other.xml"
    topic = "<Name>t</Name><MessageType>json</MessageType><Key>/id</Key><Durability>transient</Durability>"
    text = f"<AMPSConfig><Name>n</Name><SOW><Topic>{topic}</Topic></SOW></AMPSConfig>"
    one.write_text(text)
    other.write_text(text.replace("<SOW>", "<!-- one\nline more -->\n<SOW>"))
    first, second = (load_instance(path, environment={}, root=tmp_path) for path in (one, other))
    assert first.topics[0].place != second.topics[0].place
    assert (first, hash(first.topics)) == (second, hash(second.topics))
    assert "node=" not in repr(first)
    other.write_text(text.replace("/id", "/key"))
    assert load_instance(other, environment={}, root=tmp_path) != first


@pytest.mark.parametrize("ending", [".sow-lock", ".sow-writer", ".sow-gate", ".sow.damaged-1", ".queue"])
def test_the_name_of_a_side_file_stops_every_command(instance: Write, ending: str) -> None:
    with pytest.raises(ConfigError) as caught:
        topic(instance, f"<FileName>x{ending}</FileName>")
    assert caught.value.code == "SOW-CFG-334"
