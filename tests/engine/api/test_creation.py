"""Opening an instance by its directory, and creating one: the command line finds and writes the same configurations."""

from __future__ import annotations

import inspect
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import sowctl
from sowctl.config.default_config import CONFIG_NAMES
from sowctl.config.lint import lint_files
from tests.support.instances import START, config_xml, topic_xml

CONFIG = config_xml(topic_xml("t"), ("t",))


@pytest.mark.parametrize("name", CONFIG_NAMES)
def test_a_directory_is_opened_by_its_configuration(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOWCTL_CONFIG", "elsewhere.xml")
    (tmp_path / name).write_text(CONFIG)
    for directory in (tmp_path, str(tmp_path)):
        with sowctl.open(directory) as instance:
            assert instance.topic("t").publish([{"id": 1}]).inserted + instance.topic("t").query().count() >= 1
    assert (tmp_path / "sow").is_dir()


def test_a_directory_without_or_with_several_configurations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sowctl.ConfigError) as missing:
        sowctl.open(tmp_path)
    assert (missing.value.code, missing.value.place) == ("SOW-CLI-005", str(tmp_path))
    for name in CONFIG_NAMES:
        (tmp_path / name).write_text(CONFIG)
    with pytest.raises(sowctl.UsageError) as several:
        sowctl.open(tmp_path)
    assert several.value.code == "SOW-CLI-004"
    assert str(tmp_path / "sowctl.xml") in (several.value.hint or "")


def test_an_instance_is_created_and_opened(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "desk 1"
    topics: dict[str, Any] = {
        "orders": "/orderId",
        "fills": ["/orderId", "/line"],
        "own": None,
        "quotes": {"key": "/symbol", "message_type": "nvfix", "expiration": timedelta(minutes=10)},
        "sessions": {"key": ("/id",), "expiration": 0.5},
        "prices": {"key": "/symbol", "history": "5d"},
    }
    with sowctl.create(directory, topics=topics, clock=lambda: START) as instance:
        assert instance.config is not None and instance.config.name == "desk-1"
        found = {topic.name: topic for topic in instance.topics}
        assert {name: tuple(map(str, topic.keys)) for name, topic in found.items()} == {
            "orders": ("/orderId",),
            "fills": ("/orderId", "/line"),
            "own": (),
            "quotes": ("/symbol",),
            "sessions": ("/id",),
            "prices": ("/symbol",),
        }
        assert found["quotes"].message_type == "nvfix"
        assert found["quotes"].expiration.interval_us == 600 * 1_000_000
        assert found["sessions"].expiration.interval_us == 500_000
        assert found["prices"].history is not None
        assert all(topic.journalled for topic in found.values())
        orders = instance.topic("orders")
        orders.publish([{"orderId": 1}])
        assert next(orders.get(1, fields=True)).timestamp == START
    (linted,) = lint_files([directory / "sowctl.xml"], environment={})
    assert linted.findings == []


def test_name_and_journal_of_a_new_instance(tmp_path: Path) -> None:
    instance = sowctl.create(tmp_path, {"t": "/id"}, name="shop", journal=None)
    assert instance.config is not None
    assert (instance.config.name, instance.log) == ("shop", None)
    with sowctl.create(tmp_path / "b", {"t": "/id"}, journal=tmp_path / "log") as other:
        assert other.log is not None and other.log.directory == tmp_path / "log"


@pytest.mark.parametrize("name", CONFIG_NAMES)
def test_an_existing_configuration_is_never_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(CONFIG)
    with pytest.raises(sowctl.RefusedError) as refused:
        sowctl.create(tmp_path, {"t": "/id"})
    assert refused.value.code == "SOW-CLI-035"
    assert (
        sowctl.create(tmp_path, {"t": "/other"}, exist_ok=True).topic("t").config.keys
        == sowctl.open(tmp_path).topic("t").config.keys
    )
    with pytest.raises(sowctl.MissingError):
        sowctl.create(tmp_path, {"t": "/id", "more": "/id"}, exist_ok=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == CONFIG


@pytest.mark.parametrize(
    ("topics", "kind", "words"),
    [
        ({}, sowctl.UsageError, "topic is required"),
        (["t"], TypeError, "topics .* dict"),
        ({"t": 5}, TypeError, "key of topic 't'"),
        ({"t": b"/id"}, TypeError, "key of topic 't'"),
        ({"t": [1]}, TypeError, "key of topic 't'"),
        ({5: "/id"}, TypeError, "name of a topic"),
        ({"t": {"keys": "/id"}}, TypeError, "did you mean 'key'"),
        ({"t": {"message_type": 1}}, TypeError, "message_type of topic 't'"),
        ({"t": {"message_type": "jsom"}}, sowctl.UsageError, "jsom"),
        ({"t": {"message_type": "binary", "key": "/id"}}, sowctl.UsageError, "no fields"),
        ({"t": "id["}, sowctl.UsageError, "id"),
        ({"t": {"expiration": "soon"}}, sowctl.UsageError, "expiration"),
        ({"t": {"key": "/id", "expiration": "1m", "history": "1d"}}, sowctl.UsageError, "both"),
        ({"t": {"key": "/id", "history": "0s"}}, sowctl.ConfigError, "Window"),
    ],
)
def test_wrong_topics_leave_no_file(tmp_path: Path, topics: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        sowctl.create(tmp_path, topics)
    assert list(tmp_path.iterdir()) == []


def test_what_is_said_of_opening_holds_for_creating() -> None:
    own = {"directory", "topics", "name", "journal", "exist_ok"}
    of_create = {name: one.default for name, one in inspect.signature(sowctl.create).parameters.items()}
    of_open = {name: one.default for name, one in inspect.signature(sowctl.open).parameters.items()}
    assert {name: value for name, value in of_create.items() if name not in own} == {
        name: value for name, value in of_open.items() if name not in {"config", "root", "environment", "defines"}
    }
