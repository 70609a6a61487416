"""Plain words for what figures are labelled with: metrics, observers, schemes, shares and epsilons."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.rounding import shown

METRICS: Mapping[str, str] = {
    "accuracy": "accuracy of the common model",
    "accuracy_average": "accuracy of the average agent",
    "accuracy_worst": "accuracy of the worst agent",
    "test_error": "test error of the common model",
    "loss": "loss of the common model",
    "msd_centroid": "squared distance of the common model from the best one",
    "msd_average": "squared distance of an agent's model from the best one",
    "disagreement": "squared distance between the agents' models",
    "error_of_agent_0": "squared error of agent 0",
}
MEASURES: Mapping[str, str] = {
    "accuracy": "accuracy",
    "accuracy_average": "accuracy",
    "accuracy_worst": "accuracy",
    "test_error": "records classified wrongly",
    "msd_centroid": "squared distance",
    "msd_average": "squared distance",
    "disagreement": "squared distance",
    "error_of_agent_0": "squared error",
}  # on an axis, below a title that says whose
SHARES = ("accuracy", "accuracy_average", "accuracy_worst", "test_error")  # written in percent
_OBSERVERS = (
    (r"eavesdropper", "someone who reads every message"),
    (r"curious agent (\d+)", r"agent \1, who reads what it is sent"),
    (r"coalition ([\d, ]+)", r"agents \1 together"),
    (r"server", "the server"),
    (r"server and (.*)", r"the server and \1"),
    (r"links (.*)", r"someone who reads the links \1"),
    (r"final model", "someone who gets the final model"),
)
_UNITS = {"record": "one record", "agent": "all records of one agent", "person": "all records of one person"}


def metric(name: str) -> str:
    """What a metric is, for people."""
    return METRICS.get(name, name.replace("_", " "))


def axis_label(name: str) -> str:
    """What an axis is called whose title says the metric: the measure, and percent where it is a share."""
    return MEASURES.get(name, name.replace("_", " ")) + (", in percent" if name in SHARES else "")


def sentence(text: str) -> str:
    """With a capital at its start."""
    return text[:1].upper() + text[1:]


def observer(name: str, agents: Sequence[str] | None = None) -> str:
    """Who looks, for people; a name given by the user stays as it is, and agents with names are called by them."""
    parts = [_observer(part, agents) for part in name.split(" + ")]
    if len(parts) > 1 and parts[-1] == "someone who gets the final model":
        return f"{' and '.join(parts[:-1])}, and gets the final model"
    return " and ".join(parts)


def algorithm(name: str) -> str:
    """An algorithm as it is written: initials in capitals."""
    return {"atc": "ATC", "cta": "CTA", "dgd": "DGD", "fedavg": "FedAvg"}.get(name, name.replace("_", " "))


def unit(name: str) -> str:
    """What is protected, for people."""
    return _UNITS.get(name, name)


def percent(share: float, digits: int = 1) -> str:
    """A share as people write it."""
    return f"{100 * share:.{digits}f} %"


def number(value: float) -> str:
    """Three digits, without an exponent where people would not write one."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{float(f'{value:.3g}'):,.10g}"
    return f"{value:.3g}"


def epsilon(value: float | None) -> str:
    """An epsilon, rounded up to three digits; None and infinity are said in a word."""
    return "infinite" if value is None or math.isinf(value) else shown(value, 3)


def epsilons(stated: Mapping[str, Any], agents: Sequence[str] | None = None) -> list[tuple[str, str]]:
    """(who, epsilon) of every observer of a stated privacy, as `sottovoce account` states it: the agent most exposed."""
    rows: Sequence[Mapping[str, Any]] = stated["guarantees"]
    worst: dict[str, float] = {}
    for row in rows:
        value = next(iter(row["epsilon"].values()))
        found = math.inf if value is None else float(value)
        worst[row["observer"]] = max(found, worst.get(row["observer"], 0.0))
    return [(observer(name, agents), epsilon(value)) for name, value in worst.items()]


def _observer(name: str, agents: Sequence[str] | None) -> str:
    single = re.fullmatch(r"curious agent (\d+)", name)
    if single and agents is not None and int(single[1]) < len(agents):
        return f"{agents[int(single[1])]}, who reads what it is sent"
    for pattern, words in _OBSERVERS:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, words, name)
    return name
