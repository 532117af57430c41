"""``sowctl conflate`` as a program: once, and until a signal ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sowctl.seam import SEAM
from tests.cli.conftest import Cli
from tests.support.instances import Lab, config_xml, message, topic_xml

ROOT = Path(__file__).parents[2]
CONFLATED = (
    "<ConflatedTopic><Name>c</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Interval>100ms</Interval></ConflatedTopic>"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_following_ends_cleanly_on_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + CONFLATED, ()), seam=SEAM)
    lab.clock.at = int(time.time() * 1_000_000)
    lab.publish("t", message(id=1))
    argv = [sys.executable, "-m", "sowctl", "-c", str(lab.config), "conflate", "--follow", "c", "--format", "ndjson"]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}
    ) as follower:
        assert follower.stdout is not None
        first = json.loads(follower.stdout.readline())
        assert (first["topic"], first["shown"], first["gone"]) == ("c", 1, 0)
        lab.clock.at = int(time.time() * 1_000_000)
        lab.publish("t", message(id=1, v=2), message(id=2))
        second = json.loads(follower.stdout.readline())
        assert (second["shown"], second["way"]) == (2, "advanced")
        follower.send_signal(number)
        out, err = follower.communicate(timeout=30)
    assert follower.returncode == 128 + number
    assert out == b""
    assert b"Traceback" not in err
    lab.clock.at = int(time.time() * 1_000_000)
    assert sorted(lab.query("c")) == ['{"id":1,"v":2}', '{"id":2}']
    # No partial files remain.
    assert not list(lab.directory.rglob("*.tmp*"))


def test_names_that_are_none(cli: Cli, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + CONFLATED.replace("<Name>c<", "<Name>slow<"), ()))
    config = str(lab.config)
    done = cli("-c", config, "conflate", "slwo")
    assert (done.status, "did you mean slow?" in done.err) == (10, True)
    done = cli("-c", config, "conflate", "t")
    assert (done.status, "SOW-VIW-003" in done.err, done.err.rstrip().endswith(" slow")) == (2, True, True)


def test_what_was_kept_long_ago_is_said(tmp_path: Path) -> None:
    from sowctl.engine.verbs.conflate import advance_conflated

    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + CONFLATED, ()))
    lab.publish("t", message(id=1))
    list(advance_conflated(lab.open()))
    assert (lab.query("c"), lab.notes) == ([], [])
    lab.clock.tick(5)
    assert lab.query("c") == []
    assert ["sowctl conflate c" in note for note in lab.notes] == [True]
    list(advance_conflated(lab.open()))
    lab.notes.clear()
    assert (lab.query("c"), lab.notes) == ([message(id=1)], [])
