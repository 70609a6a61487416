"""Mutations: what is done to tables, to text and to values. Every function draws from the `Random` it is given and from nothing else."""

import copy
import math
from collections.abc import Callable
from random import Random
from typing import Any

Table = dict[str, Any]
Place = tuple[Any, Any]  # (the table or list that holds a value, its key or index)

# Keys that say how much there is of something. Mutated files keep them small, so that a case takes seconds at most; large
# ones are a family of their own, `cases.HUGE`.
SIZES = frozenset(
    {
        "rounds", "repeats", "chunk", "agents", "rows", "columns", "dimension", "samples", "records", "hidden", "classes", "batch_size",
        "local_steps", "gossip_steps", "gradient_rounds", "contributions", "partners", "minimum_agents", "agents_per_round", "times", "gap",
        "k", "labels_per_agent", "min_partition_size", "tail", "hops_per_agent",
    }
)  # fmt: skip
LARGEST = 20  # of such a key; a hypercube has 2^dimension agents, so that its dimension stays below
KINDS = (
    "ring", "star", "grid", "hypercube", "erdos_renyi", "federation", "linear_regression", "logistic_regression", "mean_estimation",
    "classification", "atc", "cta", "dgd", "fedavg", "inexact_admm", "gossip", "muffliato", "random_walk",
    "none", "independent", "graph_homomorphic", "local_graph_homomorphic", "gopa", "central", "gradient", "showkatbakhsh", "laplace",
    "gaussian", "l2_laplace", "iid", "dirichlet", "by_label", "by_size", "record", "agent", "l1",
    "l2", "update", "once", "problem",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 3, 0.5, -0.5, 1.0, 1e-3, 100.0, 1e12, -1e12, 1e-12, 1e39, 1e154, 1e300, -1e300, 1.7e308, 1e-300, 5e-324, -0.0,
    math.nan, math.inf, -math.inf, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400,
)  # fmt: skip
TEXTS = (
    "", " ", "a", "nan", "inf", "1", "-1", "true", "é", "日本", "🎲", "[bold]red[/bold]", "[/]", "$x_$", "a\nb", "a\n\nb", "\x1b[31mred\x1b[0m",
    "\x00", "\x7f", "\u202e", "../..", "/dev/null", "~nobody/x", "x" * 300, "x" * 5000, "eavesdropper", "curious_agent:99999",
    "coalition:", "links:0->0", "colluding_server:0.99", "server+final_model", "-h", "'", '"', "{}", "%s", "None",
)  # fmt: skip
OTHERS = (
    True,
    False,
    [],
    {},
    [1],
    ["a"],
    [[]],
    {"a": 1},
    {"kind": "none"},
    {"kind": 3},
    {"kind": {}},
    [1, "a"],
    [{}],
    [[1, 2], [3]],
)


def value(random: Random, like: Any = None) -> Any:
    """A value of any kind; half of the time, where `like` is a number, another number."""
    if isinstance(like, int | float) and random.random() < 0.5:
        return random.choice(NUMBERS)
    chosen = random.choice((NUMBERS, TEXTS, OTHERS, KINDS))
    return copy.deepcopy(random.choice(chosen))


def places(table: Any) -> list[Place]:
    """Every value in nested tables and lists, as where it is held."""
    keys = list(table) if isinstance(table, dict) else list(range(len(table)))
    found: list[Place] = [(table, key) for key in keys]
    for key in keys:
        if isinstance(table[key], dict | list):
            found += places(table[key])
    return found


def _tables(table: Table) -> list[Table]:
    return [table, *(holder[key] for holder, key in places(table) if isinstance(holder[key], dict))]


def _change(random: Random, table: Table) -> None:
    leaves = [(holder, key) for holder, key in places(table) if not isinstance(holder[key], dict)]
    if leaves:
        holder, key = random.choice(leaves)
        holder[key] = value(random, like=holder[key])


def _drop(random: Random, table: Table) -> None:
    holder, key = random.choice(places(table))
    del holder[key]


def _replace_anything(random: Random, table: Table) -> None:
    holder, key = random.choice(places(table))
    holder[key] = value(random)


def _rename(random: Random, table: Table) -> None:
    holder, key = random.choice([place for place in places(table) if isinstance(place[0], dict)])
    near = (key[:-1], key + key[-1:], key.upper(), key.replace("_", "-"), random.choice(TEXTS))
    holder[random.choice(near)] = holder.pop(key)


def _add(random: Random, table: Table) -> None:
    known = [key for each in _tables(table) for key in each]
    random.choice(_tables(table))[random.choice([*known, "extra", *TEXTS])] = value(random)


def _move(random: Random, table: Table) -> None:
    holder, key = random.choice([place for place in places(table) if isinstance(place[0], dict)])
    moved = copy.deepcopy(holder[key])
    if random.random() < 0.5:
        del holder[key]
    random.choice(_tables(table))[key] = moved


def _swap(random: Random, table: Table) -> None:
    (first, one), (second, other) = random.choice(places(table)), random.choice(places(table))
    first[one], second[other] = copy.deepcopy(second[other]), copy.deepcopy(first[one])


def _wrap(random: Random, table: Table) -> None:
    holder, key = random.choice(places(table))
    holder[key] = random.choice(([holder[key]], [holder[key]] * 2, {"value": holder[key]}, {str(key): holder[key]}))


def _nest(random: Random, table: Table) -> None:
    deep: Any = {"kind": random.choice(KINDS)} if random.random() < 0.5 else 1
    for _ in range(random.choice((1, 2, 5, 40))):
        deep = {random.choice(("a", "kind", "noise", "budget", "partition")): deep}
    random.choice(_tables(table))[random.choice(("extra", "kind", "budget", "losses", "partition"))] = deep


def _kind(random: Random, table: Table) -> None:
    named = [(holder, key) for holder, key in places(table) if isinstance(holder[key], str)]
    if named:
        holder, key = random.choice(named)
        holder[key] = random.choice((*KINDS, *TEXTS))


_ON_TABLES: tuple[tuple[Callable[[Random, Table], None], int], ...] = (
    (_change, 6), (_drop, 3), (_replace_anything, 2), (_rename, 2), (_add, 3), (_move, 2), (_swap, 2), (_wrap, 1), (_nest, 2), (_kind, 4),
)  # fmt: skip


def mutated_table(random: Random, table: Table) -> Table:
    """The table after one to three changes, with small sizes."""
    changed = copy.deepcopy(table)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if places(changed):
            functions, weights = zip(*_ON_TABLES, strict=True)
            random.choices(functions, weights)[0](random, changed)
    return capped(changed)


def capped(table: Table) -> Table:
    """The same with the sizes in it no larger than `LARGEST`, also those in lists."""
    for holder, key in places(table):
        if key in SIZES:
            holder[key] = _small(holder[key], 4 if key == "dimension" else LARGEST)
    return table


def _small(given: Any, largest: int) -> Any:
    if isinstance(given, list):
        return [_small(each, largest) for each in given]
    return largest if isinstance(given, int | float) and not isinstance(given, bool) and given > largest else given


def plausible_number(random: Random, given: float) -> float:
    """A number that a file may hold there, from the least to the greatest."""
    return random.choice(
        (0.0, 1e-30, 1e-12, 1e-3, 0.5, 0.999999, 1.0, 3.0, 1e3, 1e6, 1e12, 1e30, given / 10, given * 10, -given)
    )


def with_plausible_numbers(random: Random, table: Table) -> Table:
    """The table with up to two of its numbers that are no sizes replaced by others that a file may hold."""
    changed = copy.deepcopy(table)
    numbers = [(holder, key) for holder, key in places(changed) if isinstance(holder[key], float) and key not in SIZES]
    for _ in range(random.choice((0, 1, 2))):
        if numbers:
            holder, key = random.choice(numbers)
            holder[key] = plausible_number(random, holder[key])
    return changed


_JUNK = tuple(
    each.encode()
    for each in (
        '"',
        "'",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        "#",
        "\\",
        "\n",
        "\r",
        "\t",
        " ",
        "é",
        "_",
        "-",
        "+",
        ":",
        ";",
        "|",
    )
)
_BYTES = (b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x1b", b"\x0c", b"\x85")
_FLOODS = (b"[" * 3000, b"{a=" * 3000, b"a." * 3000, b"x" * 200_000)
_WHOLE = (b"", b"\n", b"\x00" * 50, b"\xef\xbb\xbf", b"PK\x03\x04", b"{}", b"[]", b"\n" * 1000, b" ")
_ENDS = (b"\r\n", b"\r", b"", b"\n\n", b" ")
_MARKS = ((b".", b","), (b",", b";"), (b",", b"\t"), (b"=", b":"), (b'"', b"'"), (b":", b"="))


def _encoded_otherwise(random: Random, content: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    chosen = random.choice(("utf-16", "utf-32", "utf-8-sig", "utf-16-be", "latin-1"))
    return ("é" + text).encode("latin-1", "replace") if chosen == "latin-1" else text.encode(chosen)


def _cut(random: Random, content: bytes) -> bytes:
    place = random.randrange(len(content) + 1)
    return random.choice((content[:place], content[place:], content[:place] + content[place + 1 :]))


def _inserted(random: Random, content: bytes) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + random.choice(random.choice((_JUNK, _JUNK, _BYTES, _FLOODS))) + content[place:]


def _lines(random: Random, content: bytes) -> bytes:
    """A line twice, none, or all in another order."""
    lines = content.split(b"\n")
    place = random.randrange(len(lines))
    orders = (
        [*lines[: place + 1], *lines[place:]],
        [*lines[:place], *lines[place + 1 :]],
        random.sample(lines, len(lines)),
    )
    return b"\n".join(random.choice(orders))


def _other_marks(random: Random, content: bytes) -> bytes:
    if random.random() < 0.5:
        return content.replace(b"\n", random.choice(_ENDS))
    return content.replace(*random.choice(_MARKS))


def _something_else(random: Random, content: bytes) -> bytes:
    return random.choice(_WHOLE)


_ON_TEXT: tuple[tuple[Callable[[Random, bytes], bytes], int], ...] = (
    (_cut, 3), (_inserted, 3), (_lines, 3), (_encoded_otherwise, 2), (_other_marks, 2), (_something_else, 1),
)  # fmt: skip


def mutated_text(random: Random, text: str) -> bytes:
    """The bytes of a text file after a change that knows nothing of what is in it; digits are never added."""
    functions, weights = zip(*_ON_TEXT, strict=True)
    return random.choices(functions, weights)[0](random, text.encode("utf-8", "surrogatepass"))
