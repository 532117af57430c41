"""Journal files that are pruned under a rebuild: it ends with an error, and the old store stays in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sowctl.engine.fold.rebuild import Rebuilt, rebuild
from sowctl.engine.options import ReplayOptions
from sowctl.engine.upkeep.retention.pruning import Retention, prune
from sowctl.engine.verbs.replay import replay
from sowctl.errors import MissingError, RefusedError
from tests.support.instances import Lab, config_xml, message, topic_xml, verified


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A journal of some files, and a store that has all of it: pruning may remove every file but the last one."""
    made = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)), journal_size=900)
    for number in range(12):
        made.publish("t", *(message(id=10 * number + n) for n in range(10)))
    assert len(made.journals()) > 3
    return made


def test_files_that_are_pruned_under_a_rebuild(lab: Lab) -> None:
    with verified(lab):
        instance = lab.open()

        def pruned(*args: Any, **options: Any) -> list[Rebuilt]:
            # The journal was judged, and is whole; nothing of it was folded yet.
            assert prune(instance, Retention(keep_size=1)).removed
            return rebuild(*args, **options)

        with pytest.raises(MissingError) as caught:
            replay(instance, instance.topics, ReplayOptions(rebuild=True), fold=pruned)
        assert caught.value.code == "SOW-JRN-063"
        assert len(lab.query("t")) == 120
        # The next one sees from the beginning that the journal does not reach back.
        with pytest.raises(RefusedError) as refused:
            replay(instance, instance.topics, ReplayOptions(rebuild=True))
        assert refused.value.code == "SOW-RPL-002"
        assert len(lab.query("t")) == 120
