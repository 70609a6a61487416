"""The measures of a party as Prometheus reads them, text format 0.0.4: a HELP and a TYPE line, then samples.

Names end in their units, and counters in `_total`; they count since this start. What is called spent is a meter, and what is guaranteed is what was
reserved. Nothing here is secret, but reserved and spent follow from how many records this party has.
"""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sottovoce.deployment.party.standing import Standing

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class _Family(NamedTuple):
    name: str
    kind: str
    says: str
    samples: Iterable[tuple[Labels, float]]


def exposition(
    facts: Mapping[str, Any], standing: Standing | None, refusals: Mapping[str, int], looked: float, now: float
) -> str:
    """The page.

    Args:
        facts: of the run: names, and what was reserved.
        standing: where the party stood last; None before the first look.
        refusals: by kind.
        looked: when the party last looked around, by its clock.
        now: by the same clock.
    """
    known = {name: str(facts[name]) for name in ("party", "run", "role", "digest", "program", "wire")}
    families = [
        _Family("sottovoce_party_info", "gauge", "Who takes part in which run, with which program.", [(known, 1)]),
        _one("sottovoce_look_age_seconds", "Since the party last looked around.", now - looked),
        _Family(
            "sottovoce_refusals_total",
            "counter",
            "Messages of others that were refused, by kind.",
            [({"kind": kind}, count) for kind, count in sorted(refusals.items())],
        ),
        _one("sottovoce_reserved_epsilon", "Guaranteed: reserved for this run in the ledger.", facts["reserved"]),
        _one("sottovoce_memory_resident_bytes", "Memory of this process.", _resident()),
        *(_of(standing, now) if standing is not None else []),
    ]
    return "".join(map(_text, families))


def _of(standing: Standing, now: float) -> list[_Family]:
    greeted = sum(other.greeted for other in standing.others)
    return [
        _one("sottovoce_exchange_position", "The exchange at which the party is.", standing.exchange),
        _one("sottovoce_exchanges", "Exchanges of the whole run.", standing.exchanges),
        _one("sottovoce_round_position", "The round at which the party is, from 1.", standing.round),
        _one("sottovoce_rounds", "Rounds of the whole run.", standing.rounds),
        _one("sottovoce_last_exchange_seconds", "How long the last exchange took.", standing.seconds),
        _one("sottovoce_progress_age_seconds", "Since something was last achieved.", now - standing.moved),
        _one("sottovoce_neighbours", "Parties that this one talks to.", len(standing.others)),
        _one("sottovoce_neighbours_greeted", "Those that have greeted this start.", greeted),
        _one("sottovoce_awaited_parties", "Parties of whom something is missing now.", len(standing.awaited)),
        _one("sottovoce_missing_parties", "Parties that are missing anywhere, as told.", len(standing.missing)),
        _one("sottovoce_spent_epsilon", "A meter of what was committed so far; no promise.", standing.spent),
        _one("sottovoce_sent_bytes_total", "Bytes sent.", standing.sent_bytes, "counter"),
        _one("sottovoce_resent_messages_total", "Messages sent again.", standing.resends, "counter"),
        _one("sottovoce_starts_total", "Starts of this party in this run.", standing.boots, "counter"),
    ]


def _one(name: str, says: str, value: float, kind: str = "gauge") -> _Family:
    return _Family(name, kind, says, [({}, value)])


def _text(family: _Family) -> str:
    lines = [f"# HELP {family.name} {family.says}", f"# TYPE {family.name} {family.kind}"]
    for labels, value in family.samples:
        inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        lines.append(f"{family.name}{f'{{{inside}}}' if inside else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else repr(value)


def _resident() -> float:
    """Bytes in memory; none where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return math.nan
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
