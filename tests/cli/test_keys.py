"""Errors of the command line speak of keys and commands, never of Python."""

import ast
import re
from pathlib import Path

import pytest

import sottovoce
from cli.test_pairwise import GOSSIP
from cli.test_privacy_commands import MASKED, PRIVACY
from sottovoce.cli.keys import in_keys

PYTHON = re.compile(r"\bsv\.|\b[a-z_]+='|\blambda\b|\b[a-z_]+\([a-z_]+=")
BELOW = ("topologies", "clipping", "algorithms", "noise", "observers", "linear", "accounting", "theory", "simulation")


def advice() -> list[str]:
    """Every text of the library below the experiments that tells somebody what to do, with its values left out."""
    found = []
    for folder in BELOW:
        for path in sorted((Path(sottovoce.__file__).parent / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    found += [_text(each) for each in node.exc.args]
    # Functions of the round are written in Python alone; no file has them.
    return [text for text in found if PYTHON.search(text) and "schedule_of" not in text]


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = node.values if isinstance(node, ast.JoinedStr) else ()
    return "".join(each.value if isinstance(each, ast.Constant) else "7" for each in parts)


def test_all_advice_of_the_library_can_be_said_in_keys():
    texts = advice()
    assert len(texts) > 30  # there is something to translate
    left = {text: in_keys(text) for text in texts if PYTHON.search(in_keys(text))}
    assert not left


@pytest.mark.parametrize(
    ("python", "keys"),
    [
        ("Use weights='metropolis'.", 'Use [topology] weights = "metropolis".'),
        ("Use sv.noise.independent(law).", 'Use [noise] kind = "independent".'),
        ("sv.noise.independent(law, self_noise=True), or", '[noise] kind = "independent" with self_noise = true, or'),
        ("Use sv.noise.independent(sv.noise.Gaussian(std=...)); the", 'Use [noise] kind = "independent"; the'),
        ("Use sv.noise.Gaussian or sv.noise.Laplace.", 'Use [noise] law = "gaussian" or [noise] law = "laplace".'),
        ("Use sv.observers.eavesdropper(), or sv.topologies.federation(n).", 'Use observers = ["eavesdropper"], or [topology] kind = "federation".'),
        ("as in sv.observers.server() + sv.observers.coalition([...]), or", 'as in observers = ["server+coalition:1,2"], or'),
        ("noise in every local step, noise=sv.noise.gradient(law); or", 'noise in every local step, [noise] kind = "gradient"; or'),
        ("cyclic(times=3, gap=10) spans", "[privacy] participation = { times = 3, gap = 10 } spans"),
        ("or use sv.account.", "or use sottovoce account."),
        ("Ask for unit='agent', or", 'Ask for [privacy] unit = "agent", or'),
        ("part (participation=1.0), or", "part ([algorithm] participation = 1.0), or"),
        ("[privacy] clip = 1 and nothing else", "[privacy] clip = 1 and nothing else"),
        ("noise.std=0.2: unknown key 'a'", "noise.std=0.2: unknown key 'a'"),
    ],
)  # fmt: skip
def test_python_becomes_keys(python, keys):
    assert in_keys(python) == keys


@pytest.mark.parametrize(
    "arguments",
    [
        ("account", "small.toml", "noise.self_noise=false"),
        ("account", "small.toml", "privacy.observers=['server']"),
        ("account", "small.toml", "noise={kind='central', law='gaussian', std=1.0}"),
        ("account", "small.toml", "topology={kind='path', agents=4}", "noise={kind='local_graph_homomorphic', law='gaussian', std=1.0}"),
        ("run", "small.toml", "noise={kind='gopa', law='l2_laplace', scale=1.0, pairwise_std=1.0}"),
        ("run", "small.toml", "topology={kind='geometric', agents=40, radius=0.01}"),
        ("account", "masked.toml", "privacy.observers=['links:0->1']"),
        ("account", "masked.toml", "noise={kind='graph_homomorphic', law='gaussian', std=1.0}"),
        ("pairwise", "gossip.toml", "topology={kind='ring', agents=6, dropout=0.1}"),
        ("pairwise", "gossip.toml", "noise={kind='gradient', law='laplace', std=1.0}"),
    ],
)  # fmt: skip
def test_a_refused_file_is_told_keys(sottovoce, small, tmp_path, arguments):
    small.write_text(small.read_text() + PRIVACY)
    (tmp_path / "masked.toml").write_text(MASKED)
    (tmp_path / "gossip.toml").write_text(GOSSIP)
    result = sottovoce(*arguments)
    assert result.exit_code == 2, result.output
    assert not PYTHON.search(result.stderr), result.stderr
