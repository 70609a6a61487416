"""Which cases there are: number `n` of a seed is always the same case, whatever was played before it."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fuzz.bases import COMPARISON, CONFIGURATIONS, DESIGN, REPRODUCTIONS, data_files
from fuzz.data_mutations import csv_bytes, libsvm_bytes, npz_file
from fuzz.judge import Case
from fuzz.mutate import (
    KINDS,
    NUMBERS,
    SIZES,
    TEXTS,
    capped,
    mutated_table,
    mutated_text,
    value,
    with_plausible_numbers,
)
from fuzz.toml_text import toml_text, value_text

# How often sizes that no machine holds are drawn, among a hundred cases. Every command estimates its memory and time before it starts and
# refuses them; `python -m fuzz --family huge` plays them alone. Smaller ones may be honest work of minutes, which is no fault.
HUGE = 5

_DESIGNED = 100  # every so-manieth case designs noise, so that those of other families keep their numbers
_SEPARATE = 40  # every so-manieth case runs in a process of its own
_USES: dict[str, tuple[str, ...]] = {  # command -> the options it needs here
    "run": (),
    "account": (),
    "calibrate": ("--epsilon", "2"),
    "audit": ("--pairs", "60", "--confidence", "0.9"),
    "pairwise": (),
    "gradients": (),
    "check": (),
}
_OPTIONS: dict[str, tuple[str, ...]] = {  # command -> all of its options
    "demo": ("--out", "--json", "--quiet"),
    "new": (
        "--template", "--data", "--target", "--owner", "--person", "--kind", "--show-values", "--force", "--json", "--quiet",
    ),
    "check": ("--json", "--quiet"),
    "predict": ("--out", "--agent", "--proba", "--force", "--json", "--quiet"),
    "run": ("--out", "--explain", "--json", "--quiet"),
    "list": ("--json", "--quiet"),
    "docs": ("--json", "--quiet"),
    "doctor": ("--json", "--quiet"),
    "account": ("--per-agent", "--explain", "--json", "--quiet"),
    "calibrate": ("--epsilon", "--delta", "--noise", "--observer", "--json", "--quiet"),
    "audit": ("--pairs", "--confidence", "--observer", "--attack", "--agent", "--out", "--json", "--quiet"),
    "pairwise": (
        "--attacker", "--resolution", "--tokens", "--workers", "--published-seed", "--out", "--explain", "--json", "--quiet",
    ),
    "gradients": ("--json", "--quiet"),
    "compare": ("--out", "--json", "--quiet"),
    "reproduce": ("--out", "--accept", "--json", "--quiet"),
    "train": ("--out", "--ledger", "--dataset", "--budget", "--json", "--quiet"),
    "keys": ("--folder", "--address", "--role", "--days", "--json", "--quiet"),
    "roster": ("--roster", "--json", "--quiet"),
    "party": (
        "--data", "--as", "--keys", "--store", "--accept", "--roster", "--out", "--listen", "--relay", "--shape", "--health", "--log-stderr", "--explain",
        "--json", "--quiet",
    ),
    "relay": ("--address", "--out", "--messages", "--hours", "--json", "--quiet"),
    "deploy-local": ("--secret", "--out", "--json", "--quiet"),
    "ledger": ("--name", "--unit", "--adjacency", "--delta", "--budget", "--as", "--folder", "--out", "--json", "--quiet"),
}  # fmt: skip
_FLAGS = {
    "--json",
    "--quiet",
    "--force",
    "--per-agent",
    "--explain",
    "--show-values",
    "--proba",
    "--secret",
    "--log-stderr",
}
# Commands that the family of options alone plays; the second list holds those of real parties.
_ALONE = ("demo", "new", "new", "new", "list", "docs", "docs", "doctor", "doctor", "predict", "predict")
_DEPLOYED = ("ledger", "ledger", "train", "keys", "roster", "party", "party", "party", "relay", "deploy-local")
_OBSERVERS = (
    "eavesdropper", "curious_agent:0", "curious_agent:1+final_model", "coalition:0,1", "server", "colluding_server:0.4", "links:0->1,1->0",
    "final_model", "server+final_model", "coalition:0,1,2,3,4,5,6,7", "links:0->0",
)  # fmt: skip
_FOLDERS = (
    "out",
    "a/b/c",
    "x" * 300,
    "config.toml",
    "config.toml/x",
    "/dev/null",
    "/dev/null/x",
    "/proc/x",
    "full",
    ".",
    "",
    "é [bold]",
    "\n",
)


def case(seed: int, number: int, family: str | None = None) -> Case:
    """The case of this number, among all families or of one alone."""
    random = Random(f"{seed}/{number}")
    weights = [weight for _, weight in FAMILIES.values()]
    drawn = "design" if number % _DESIGNED == _DESIGNED // 2 else random.choices(list(FAMILIES), weights)[0]
    make = FAMILIES[family or drawn][0]
    chosen = make(random)
    separate = chosen.separate or (number % _SEPARATE == 0 and all("\x00" not in word for word in chosen.arguments))
    return Case(**{**vars(chosen), "separate": separate})


def _huge_case(random: Random) -> Case:
    """One size far beyond any machine, in a process whose memory is limited."""
    table = random.choice(list(CONFIGURATIONS.values()))
    sized = [
        f"{name}.{key}"
        for name, section in table.items()
        for key, given in section.items()
        if key in SIZES and isinstance(given, int)
    ]
    override = f"{random.choice(sized)}={random.choice((10**11, 10**12, 10**15, 10**18))}"
    arguments = _arguments(random, "config.toml", override)
    if random.random() < 0.1:
        arguments = (
            "audit",
            "config.toml",
            "--confidence",
            "0.9",
            "--pairs",
            str(random.choice((10**10, 10**12, 10**15))),
        )
    return Case(family="huge", arguments=arguments, files=_files(toml_text(table).encode()), separate=True)


def _files(configuration: bytes) -> dict[str, bytes]:
    return {"config.toml": configuration, **data_files()}


def _arguments(random: Random, file: str, *overrides: str) -> tuple[str, ...]:
    """A command that reads a configuration, with what it needs; now and then in JSON."""
    command = random.choices(list(_USES), (6, 3, 2, 1, 2, 1, 3))[0]
    out = ("--out", "out") if command in ("run", "audit", "pairwise") and random.random() < 0.3 else ()
    return (command, file, *overrides, *_USES[command], *out, *(("--json",) if random.random() < 0.2 else ()))


def _design_case(random: Random) -> Case:
    table = mutated_table(random, DESIGN)
    arguments = ("design", "config.toml", "--out", "out", *(("--json",) if random.random() < 0.2 else ()))
    return Case(family="design", arguments=arguments, files=_files(_encoded(toml_text(table))))


def _table_case(random: Random) -> Case:
    table = mutated_table(random, random.choice(list(CONFIGURATIONS.values())))
    return Case(family="table", arguments=_arguments(random, "config.toml"), files=_files(_encoded(toml_text(table))))


def _recombined_case(random: Random) -> Case:
    """Sections of different sound configurations, with numbers that a file may hold: this reaches the code behind the checks."""
    table = {
        name: dict(random.choice(_holding(name))[name])
        for name in ("experiment", "topology", "problem", "algorithm", "noise")
    }
    if random.random() < 0.9:
        table["privacy"] = {**random.choice(_holding("privacy"))["privacy"]}
        if random.random() < 0.5:
            table["privacy"]["observers"] = random.sample(_OBSERVERS, random.choice((1, 1, 2)))
        if random.random() < 0.3:
            table["privacy"] |= random.choice(
                ({"unit": "agent"}, {"unit": "record"}, {"clips": "update"}, {"clip_norm": "l1"}, {"losses": "problem"})
            )
    table["experiment"] |= random.choice(
        ({}, {"dtype": "float64"}, {"repeats": 1}, {"rounds": 1}, {"record": ["loss"]}, {"chunk": 1})
    )
    table = with_plausible_numbers(random, table)
    return Case(
        family="recombined", arguments=_arguments(random, "config.toml"), files=_files(toml_text(table).encode())
    )


def _holding(section: str) -> list[dict[str, Any]]:
    return [table for table in CONFIGURATIONS.values() if section in table]


def _text_case(random: Random) -> Case:
    text = toml_text(random.choice(list(CONFIGURATIONS.values())))
    return Case(family="text", arguments=_arguments(random, "config.toml"), files=_files(mutated_text(random, text)))


def _comparison_case(random: Random) -> Case:
    table = mutated_table(random, COMPARISON) if random.random() < 0.95 else COMPARISON
    content = _encoded(toml_text(table)) if random.random() < 0.8 else mutated_text(random, toml_text(COMPARISON))
    out = ("--out", "out") if random.random() < 0.3 else ()
    return Case(family="comparison", arguments=("compare", "config.toml", *out), files=_files(content))


def _reproduction_case(random: Random) -> Case:
    tables = dict(REPRODUCTIONS)
    name = random.choice(list(tables))
    kind = random.randrange(5)
    if kind < 3:
        tables[name] = mutated_table(random, tables[name])
    files = {f"reproductions/{each}/config.toml": _encoded(toml_text(table)) for each, table in tables.items()}
    if kind == 3:
        expected = {"tolerance": value(random, like=0.1), "cells": {}, "verdicts": {}}
        files[f"reproductions/{name}/expected.json"] = mutated_text(random, json.dumps(expected, default=str))
    asked = random.choices((name, "all", "list", f"reproductions/{name}", random.choice(TEXTS)), (5, 1, 2, 1, 1))[0]
    override = (_override(random, REPRODUCTIONS[name]),) if kind == 4 else ()
    accept = ("--accept", _word(random)) if random.random() < 0.2 else ()
    return Case(family="reproduction", arguments=("reproduce", asked, *override, *accept), files=files)


def _override_case(random: Random) -> Case:
    table = random.choice(list(CONFIGURATIONS.values()))
    overrides = [_override(random, table) for _ in range(random.choice((1, 1, 2)))]
    return Case(
        family="override",
        arguments=_arguments(random, "config.toml", *overrides),
        files=_files(toml_text(table).encode()),
    )


def _override(random: Random, table: dict[str, Any]) -> str:
    """`section.key=value`, mostly of a section and a key that exist."""
    section = random.choice(list(table))
    inner = table[section]
    known = [key for other in CONFIGURATIONS.values() for key in other.get(section, {})]
    key = (
        random.choice(list(inner))
        if isinstance(inner, dict) and random.random() < 0.7
        else random.choice([*known, "extra"])
    )
    if random.random() < 0.1:
        return random.choice(("", "=", ".", "noise", "noise=", "=1", "a.b.c.d=1", "noise.=1", ".std=1", "noise.std=1=2", "noise=1", "noise={}",
            "noise={kind='none'}", "noise.std", "é.std=1", "noise.std=[", "privacy.budget.epsilon=1", "privacy.losses.beta=1", "deployment.collude=1", "deployment=~", "problem.partition.a=1",
            "experiment=" + "[" * 3000, "experiment.name=" + "{a=" * 3000, ".".join("a" * 3000) + "=1", "noise.std=\n1"))  # fmt: skip
    content = capped({key: value(random, like=inner.get(key) if isinstance(inner, dict) else None)})[key]
    text = content if isinstance(content, str) and random.random() < 0.5 else value_text(content)
    return f"{section}.{key}={text}".replace("\x00", "")


def _data_case(random: Random, ending: str, make: Callable[[Random], bytes]) -> Case:
    bases = [table for table in CONFIGURATIONS.values() if table["problem"]["data"].endswith(ending)]
    table = random.choice(bases)
    command = random.choices(("run", "account", "gradients"), (4, 1, 2))[0]
    files = _files(toml_text(table).encode()) | {f"data{ending}": make(random)}
    return Case(family=ending[1:], arguments=(command, "config.toml"), files=files)


def _csv_case(random: Random) -> Case:
    return _data_case(random, ".csv", csv_bytes)


def _npz_case(random: Random) -> Case:
    return _data_case(random, ".npz", npz_file)


def _libsvm_case(random: Random) -> Case:
    return _data_case(random, ".libsvm", libsvm_bytes)


def _special_case(random: Random) -> Case:
    """Something that is no plain file where a file is expected."""
    ending = random.choice((".csv", ".npz", ".libsvm", ".toml", ".toml"))
    name = "config.toml" if ending == ".toml" else f"data{ending}"
    bases = [
        table for table in CONFIGURATIONS.values() if ending == ".toml" or table["problem"]["data"].endswith(ending)
    ]
    kind = random.choice(("fifo", "folder", "socket", "missing", "unreadable", "loop", "device"))
    arguments = _arguments(random, "config.toml")
    if ending == ".toml" and random.random() < 0.2:
        arguments = random.choice(
            (("compare", "config.toml"), ("new", "config.toml"), ("new", "config.toml", "--force"))
        )
    return Case(
        family="special",
        arguments=arguments,
        files=_files(toml_text(random.choice(bases)).encode()),
        specials={name: kind},
    )


def _folder_case(random: Random) -> Case:
    """A folder of results that cannot be one, or is somebody else's."""
    command = random.choice(("run", "run", "pairwise", "audit", "demo", "compare", "reproduce"))
    files = _files(toml_text(COMPARISON if command == "compare" else CONFIGURATIONS["gossip"]).encode())
    files["full/keep"] = b"precious"
    folder = random.choice(
        _FOLDERS if command != "demo" else [each for each in _FOLDERS if "/" in each[1:] or len(each) > 100]
    )
    if command == "run" and random.random() < 0.5:
        folder = "damaged"
        header = json.dumps(
            {"format_version": 1, "status": "finished", "config": None, "versions": {}, "description": {}}
        )
        files["damaged/run.json"] = mutated_text(random, header) if random.random() < 0.7 else header.encode()
    given = {"demo": (), "reproduce": ("walking",)}.get(command, ("config.toml",))
    if command == "reproduce":
        files["reproductions/walking/config.toml"] = toml_text(REPRODUCTIONS["walking"]).encode()
    return Case(family="folder", arguments=(command, *given, *_USES.get(command, ()), "--out", folder), files=files)


def _option_case(random: Random) -> Case:
    """Options of every command: too many, too few, unknown, of another command, with values that do not fit."""
    command = random.choice([*_OPTIONS, *_ALONE, *_DEPLOYED])
    table = COMPARISON if command == "compare" else random.choice(list(CONFIGURATIONS.values()))
    words: list[str] = [*_named(random, command), *(_USES.get(command, ()) if random.random() < 0.6 else ())]
    for _ in range(random.choice((1, 1, 2, 3))):
        option = random.choice(_OPTIONS[random.choice((command, command, command, random.choice(list(_OPTIONS))))])
        words += [option] if option in _FLAGS or random.random() < 0.1 else [option, _word(random)]
    if random.random() < 0.2:
        words.insert(
            random.randrange(len(words) + 1),
            random.choice(("--unknown", "-x", "--", "-h", "--help", "--out=", "---", *TEXTS)),
        )
    if random.random() < 0.1 and words:
        words.remove(random.choice(words))
    if command in ("demo", "deploy-local") and not {"--unknown", "-h"} & set(words):
        words += ["--out", "/dev/null/x"]  # a whole demonstration or rehearsal takes too long to be played often
    before = random.choices(((), ("--json",), ("--version",), ("--unknown",)), (16, 1, 1, 1))[0]
    files = _files(toml_text(table).encode())
    files["reproductions/walking/config.toml"] = toml_text(REPRODUCTIONS["walking"]).encode()
    return Case(
        family="option", arguments=tuple(word.replace("\x00", "") for word in (*before, command, *words)), files=files
    )


def _named(random: Random, command: str) -> tuple[str, ...]:
    """What a command names before its options."""
    several: dict[str, tuple[tuple[str, ...], ...]] = {
        "ledger": (
            ("create", "new.ledger"), ("config.toml",), ("check", "data.csv", "config.toml"), ("export", "new.ledger"),
            ("cancel", "none", "run"),
        ),
        "keys": (("new", "basel"), ("show", "basel"), ("renew", "config.toml"), ("new", "../basel"), ("lose", "basel")),
        "roster": (("show",), ("add", "config.toml"), ("add", "data.csv", "none"), ("remove", "basel"), ("check",)),
        "relay": (("config", "config.toml"), ("open", "none"), ("check", "out"), ("close", "out")),
        "party": (("run", "config.toml"), ("walk", "config.toml"), ("run", "none.toml"), ("status",), ("status", "out")),
    }  # fmt: skip
    if command in several:
        return random.choice(several[command])
    alone: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(("demo", "docs", "list", "doctor"), ()),
        "new": ("new.toml",),
        "predict": ("out", "data.csv"),
        "reproduce": ("walking",),
    }
    return alone.get(command, ("config.toml",))


def _word(random: Random) -> str:
    """The value of an option."""
    numbers = [str(number) for number in NUMBERS if not (isinstance(number, int) and number > 100)]
    chosen: Sequence[str] = random.choice(
        (numbers, numbers, TEXTS, KINDS, ("0.5", "1e-5", "2", "3", "60", "0.9", "likelihood", "out"))
    )
    return random.choice(chosen)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


FAMILIES: dict[str, tuple[Callable[[Random], Case], int]] = {  # name -> (what makes a case, how often among a hundred)
    "table": (_table_case, 24),
    "recombined": (_recombined_case, 20),
    "override": (_override_case, 12),
    "text": (_text_case, 8),
    "csv": (_csv_case, 8),
    "npz": (_npz_case, 6),
    "libsvm": (_libsvm_case, 6),
    "option": (_option_case, 18),
    "comparison": (_comparison_case, 4),
    "reproduction": (_reproduction_case, 4),
    "special": (_special_case, 2),
    "folder": (_folder_case, 2),
    "huge": (_huge_case, HUGE),
    "design": (_design_case, 0),  # by its number
}
