"""Names undefined in a part of a configuration, or with a missing include, are not reported as undefined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.validate import inspect_config

Write = Callable[..., Path]
VIEW = (
    "<View><Name>v</Name><MessageType>my</MessageType><UnderlyingTopic>a</UnderlyingTopic>"
    "<Projection><Field>/a</Field></Projection><Grouping><Field>/a</Field></Grouping></View>"
)
QUEUE = "<Queue><Name>q</Name><MessageType>json</MessageType></Queue>"
LOG = "<TransactionLog><JournalDirectory>j</JournalDirectory>{}</TransactionLog>"
TRANSPORT = "<Transport><Name>t</Name><Type>tcp</Type><InetAddr>1</InetAddr><Protocol>mine</Protocol></Transport>"


def told(path: Path, fragment: bool = True) -> list[str]:
    return [
        finding.id for finding in inspect_config(path, environment={}, fragment=fragment) if finding.id[0] in "SFRX"
    ]


@pytest.mark.parametrize("text", [VIEW, QUEUE, TRANSPORT, VIEW + QUEUE])
def test_loose_entries_refer_to_what_is_elsewhere(write: Write, text: str) -> None:
    assert told(write(text)) == []


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (f"<SOW>{VIEW}</SOW>", ["R004"]),
        (f"<SOW>{QUEUE}</SOW>{LOG.format('')}", ["R008"]),
        (f"<SOW>{VIEW}</SOW><MessageTypes/>", ["R001", "R004"]),
        (f"<Transports>{TRANSPORT}</Transports><Protocols/>", ["R003"]),
    ],
)
def test_a_section_that_is_there_is_taken_for_whole(write: Write, text: str, rules: list[str]) -> None:
    assert told(write(text)) == rules


def test_a_missing_include_may_define_it(write: Write) -> None:
    config = "<AMPSConfig><Name>x</Name><SOW>{}" + QUEUE + VIEW.replace(">my<", ">json<") + "</SOW>{}</AMPSConfig>"
    assert told(write(config.format("", "")), False) == ["R008", "R004"]
    gone = "<Include>gone.xml</Include>"
    assert told(write(config.format(gone, "")), False) == ["X006", "X016", "R008"]
    assert told(write(config.format("", gone)), False) == ["R004", "X006", "X016"]
    assert told(write(config.format("", LOG.format(gone))), False) == ["R004", "X006", "X016"]
