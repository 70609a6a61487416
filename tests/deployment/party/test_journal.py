"""The log: lines for people and programs, which survive rotation and a full disk."""

import io
import json
import re
import stat
from pathlib import Path

import pytest

from sottovoce.deployment.party.journal import SENTENCES, Journal


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_time_level_event_sentence_and_values(tmp_path):
    also = io.StringIO()
    journal = Journal(tmp_path / "made", also)
    journal.log("refused", sender="chur", reason="forged", kind="Forged")
    journal.log("something new", size=3)
    journal.log("waiting", position=4, awaited=["chur", "bern"])
    journal.close()
    first, second, third = lines(tmp_path / "made" / "log.jsonl")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "warning", "event": "refused", "says": "Refused of chur: forged", "sender": "chur", "reason": "forged", "kind": "Forged",
    }  # fmt: skip
    assert (second["level"], second["says"], second["size"]) == ("info", "something new", 3)
    assert third["says"].endswith("waits for chur, bern.")
    assert also.getvalue() == (tmp_path / "made" / "log.jsonl").read_text()
    assert stat.S_IMODE((tmp_path / "made" / "log.jsonl").stat().st_mode) == 0o600


def test_a_value_that_is_missing_or_holds_line_breaks_spoils_no_line(tmp_path):
    journal = Journal(tmp_path)
    for event in SENTENCES:
        journal.log(event)
    journal.log("refused", sender="chur", reason='{"event": "ready"}\n{x} \x1b[2J', kind="Forged")
    journal.close()
    assert len(lines(tmp_path / "log.jsonl")) == len(SENTENCES) + 1
    assert "\x1b" not in (tmp_path / "log.jsonl").read_text()


@pytest.mark.parametrize("how", ["renamed", "replaced", "removed"])
def test_a_log_that_was_moved_away_is_begun_anew(tmp_path, how):
    journal = Journal(tmp_path)
    journal.log("ready", position=1)
    journal.measure(position=1)
    for name in ("log.jsonl", "metrics.jsonl"):
        path = tmp_path / name
        path.unlink() if how == "removed" else path.rename(tmp_path / f"{name}.1")
        if how == "replaced":
            path.touch()
    journal.log("ready", position=2)
    journal.measure(position=2)
    journal.close()
    assert [line["position"] for line in lines(tmp_path / "log.jsonl")] == [2]
    assert [line["position"] for line in lines(tmp_path / "metrics.jsonl")] == [2]
    if how != "removed":
        assert [line["position"] for line in lines(tmp_path / "log.jsonl.1")] == [1]
        assert [line["position"] for line in lines(tmp_path / "metrics.jsonl.1")] == [1]


def test_a_log_that_was_copied_and_cut_goes_on_at_its_beginning(tmp_path):
    journal = Journal(tmp_path)
    journal.log("ready", position=1)
    (tmp_path / "log.jsonl").write_bytes(b"")
    journal.log("ready", position=2)
    journal.close()
    assert [line["position"] for line in lines(tmp_path / "log.jsonl")] == [2]


def test_a_full_disk_costs_lines_and_not_the_run():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no such device")
    journal = Journal.__new__(Journal)
    from sottovoce.deployment.party.journal import _Lines

    journal._log, journal._metrics, journal._also = _Lines(full), _Lines(full), None
    journal.log("ready", position=1)
    journal.log("ready", position=2)
    assert journal.lost == 2
    journal.close()
