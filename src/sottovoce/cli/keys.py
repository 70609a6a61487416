"""What the library advises, in the words of a file: keys of sections and commands in place of Python.

The library speaks to whoever calls it from Python (`weights='metropolis'`, `sv.noise.independent(law)`); who wrote a file is told the key
(`[topology] weights = "metropolis"`, `[noise] kind = "independent"`). Rules apply in order, the special before the general.
"""

import re
from collections.abc import Callable

_SECTIONS = {  # keywords whose values are texts, and where a file has them
    "weights": "[topology] weights",
    "unit": "[privacy] unit",
    "adjacency": "[privacy] adjacency",
    "norm": "[privacy] clip_norm",
    "exchange": "[algorithm] exchange",
    "model": "[problem] model",
    "kind": "[problem] partition kind",
    "keys": "keys",
}
_LAWS = {"Gaussian": "gaussian", "Laplace": "laplace", "L2Laplace": "l2_laplace"}
_PARTS = {"noise": "[noise]", "algorithms": "[algorithm]", "topologies": "[topology]", "problems": "[problem]"}
_COMMANDS = {
    "account": "sottovoce account", "calibrate": "sottovoce calibrate", "audit": "sottovoce audit", "compare": "sottovoce compare",
    "simulate": "sottovoce run", "observe": "sottovoce audit", "load": "the folder of a run", "expected_msd": "exact theory",
}  # fmt: skip
_ARGUMENTS = r"(?:\((?:[^()]|\([^()]*\))*\))?"  # of a call, with calls inside it; or none


def _observer(found: re.Match[str]) -> str:
    forms = {"curious_agent": "curious_agent:3", "coalition": "coalition:1,2", "links": "links:2->3"}
    names = [forms.get(name, name) for name in found.groups() if name is not None]
    return f'observers = ["{"+".join(names)}"]'


def _part(found: re.Match[str]) -> str:
    section, name = _PARTS[found.group(1)], found.group(2)
    if name in _LAWS:
        return f'{section} law = "{_LAWS[name]}"'
    if name == "Gopa":
        return f'{section} aggregation = "gopa"'
    if not name.islower():
        return f"{section} {name}"
    return f'{section} kind = "{name}"{" with self_noise = true" if "self_noise=True" in found.group(0) else ""}'


_Said = str | Callable[[re.Match[str]], str]
_RULES: tuple[tuple[str, _Said], ...] = (
    (r"losses=sv\.accounting\.ConvexSmooth\([^)]*\)", '[privacy] losses = "problem", or { beta = .., nu = .. },'),
    (r"fedavg\(\.\.\., update_clip=[^)]*\)\)", 'fedavg with [privacy] clips = "update"'),
    (r"sv\.algorithms\.fedavg\(update_clip=[^)]*\)", 'fedavg with [privacy] clips = "update"'),
    (r"update_clip=sv\.clipping\.Clip\([^)]*\)", '[privacy] clips = "update"'),
    (r"sv\.clipping\.Clip\([^)]*\)", "[privacy] clip and clip_norm"),
    (r"sv\.accounting\.poisson\([^)]*\)|sv\.accounting\.cyclic\([^)]*\)", "[privacy] participation"),
    (r"problem\.with_clipping\([^)]*\)", "[privacy] clip and clip_norm"),
    (r"problem\.with_persons\([^)]*\)", "[problem] person and records_per_person"),
    (r"problem\.sensitivity\(norm='l1', \.\.\.\)", '[privacy] clip_norm = "l1"'),
    (r"topology\.with_random_pair\(\)", "[topology] random_pair = true"),
    (r"topology\.with_dropout\([^)]*\)", "[topology] dropout"),
    (r"topology\.with_walk\(\)", "[topology] walk = true"),
    (r"topology\.with_schedule\([^)]*\)", "links that do not change at random"),
    (r"(?<![\w.])curious_agent\(k\)", '"curious_agent:3"'),
    (rf"sv\.observers\.(\w+){_ARGUMENTS}(?: \+ sv\.observers\.(\w+){_ARGUMENTS})?", _observer),
    (r"federation\(n=(\d+)\)", r'[topology] kind = "federation" with agents = \1'),
    (r"(?<![\w.])cyclic\(times=(\d+), gap=(\d+)\)", r"[privacy] participation = { times = \1, gap = \2 }"),
    (r"(?:noise=|algorithm=|aggregation=)?sv\.(noise|algorithms|topologies|problems)\.(\w+)" + _ARGUMENTS, _part),
    (r"sv\.(\w+)\.\w+" + _ARGUMENTS, lambda found: f"{found.group(1)} (in Python)"),
    (r"sv\.(\w+)" + _ARGUMENTS, lambda found: _COMMANDS.get(found.group(1), f"{found.group(1)} (in Python)")),
    (r"participation=([\w.]+)", r"[algorithm] participation = \1"),
    (r"(?<![\w\[])(\w+)='([^']*)'", lambda found: f'{_SECTIONS.get(found.group(1), found.group(1))} = "{found.group(2)}"'),
)  # fmt: skip


def in_keys(message: str) -> str:
    """A message of the library with keys and commands in place of Python."""
    for pattern, said in _RULES:
        message = re.sub(pattern, said, message)
    return message
