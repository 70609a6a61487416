"""Which colour a thing has, the same in every figure: groups of agents, schemes, observers.

The colours are those of Okabe & Ito, which are told apart with every kind of colour vision, without yellow (too light on white) and
black (kept for theory), and a dark grey. Things of one kind also differ in dash and marker, so that they are told apart in print without colour.
A thing is recognised by its name inside a label: "independent, ATC" is independent noise. What has no colour of its own gets one that is free.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, GREY = PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D",
)  # fmt: skip
THEORY = "#000000"
REFERENCE = "#6A6A6A"  # lines that others are compared with: guessing, chance, a limit
DASHES = ("solid", "dashed", "dotted", "dashdot")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Names within one table are tried from the longest to the shortest, so that "local graph-homomorphic" is not "graph-homomorphic".
GROUPS: Mapping[str, str] = {
    "with noise": BLUE,
    "without noise": GREEN,
    "no noise": GREEN,
    "noise free": GREEN,
    "alone": ORANGE,
    "majority": GREY,
    "mean of all": GREY,
}
SCHEMES: Mapping[str, str] = {
    "independent": BLUE,
    "graph homomorphic": VERMILION,
    "local graph homomorphic": PURPLE,
    "gopa": SKY,
    "pairwise": SKY,
    "central": GREY,
    "gradient": ORANGE,
    "without noise": GREEN,
    "no noise": GREEN,
    "noise free": GREEN,
    "none": GREEN,
}
DESIGNS: Mapping[str, str] = {  # noise that was computed, beside schemes that were picked
    "designed": VERMILION,
    "edge keys": VERMILION,
    "free": PURPLE,
    "one step": ORANGE,
    "central": GREY,
}
STANDINGS: Mapping[str, str] = {
    "proven": BLUE,
    "published": PURPLE,
    "shown": VERMILION,
    "local": ORANGE,  # everybody adds the noise that hides it alone
    "central": GREY,  # a trusted curator adds noise once
}
OBSERVERS: Mapping[str, str] = {
    "eavesdropper": VERMILION,
    "curious agent": BLUE,
    "neighbour": BLUE,
    "coalition": PURPLE,
    "server": ORANGE,
    "relay": ORANGE,
    "averages": SKY,
    "broadcast": SKY,
    "final model": GREEN,
    "links": SKY,
}
SHOWN, PROMISED, BETWEEN = VERMILION, BLUE, "#9FC5DE"  # what an attack shows, what is proven, the room between
WORLDS = (BLUE, VERMILION)  # scores of an audit in its two worlds
NOTHING_HIDDEN = VERMILION  # an infinite loss
OWN = "#D9D9D9"  # an agent about itself


def ink(colour: str) -> str:
    """A colour dark enough for letters on white: of the same hue, at most two fifths as bright as white."""
    parts = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    bright = (0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2]) / 255
    factor = min(1.0, 0.4 / bright) if bright else 1.0
    return "#" + "".join(f"{round(part * factor):02X}" for part in parts)


class Look(NamedTuple):
    """What tells one line from the others; dash and marker are names that every drawing program can follow."""

    colour: str
    dash: str
    marker: str


def known_colour(label: str, *tables: Mapping[str, str]) -> str | None:
    """The colour of the longest name that a label contains, in the first table that has one."""
    words = " ".join(label.lower().replace("-", " ").replace("_", " ").split())
    for table in tables:
        if found := [name for name in table if name in words]:
            return table[max(found, key=len)]
    return None


def looks(labels: Iterable[str], *tables: Mapping[str, str]) -> dict[str, Look]:
    """One look per label: the colour of the thing it names, else one that no other label has, as long as there are.

    Labels of one colour differ in dash and marker.
    """
    labels = list(labels)
    known = {label: known_colour(label, *tables) for label in labels}
    # Green is kept for what has no noise, which many pictures show beside their lines.
    free = [colour for colour in PALETTE if colour not in (*known.values(), GREEN)] or list(PALETTE)
    found: dict[str, Look] = {}
    for position, label in enumerate(labels):
        colour = known[label]
        if colour is None:
            colour = free[sum(known[each] is None for each in labels[:position]) % len(free)]
        alike = sum(look.colour == colour for look in found.values())
        found[label] = Look(colour, DASHES[alike % len(DASHES)], MARKERS[position % len(MARKERS)])
    return found
