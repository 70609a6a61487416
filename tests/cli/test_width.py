"""Whatever a command prints fits 80 columns and 140, and no number in it is cut, wrapped or lost."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from cli.test_audit import AUDITED
from cli.test_compare import FILE as COMPARED
from cli.test_pairwise import GOSSIP, WALKING
from cli.test_privacy_commands import MASKED, PRIVACY
from cli.test_refusals import WALK
from sottovoce import reports
from sottovoce.cli import output

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]*\d)")
WIDTHS = (80, 140)
LONG_NAMES = "privacy.observers=['eavesdropper+final_model', 'coalition:1,2', 'links:0->1,1->2,2->3,3->2', 'curious_agent:2+final_model']"
ASKED = ("--pairs", 20, "--confidence", 0.99)
FULL = "algorithm={kind='atc', step_size=0.1}"
COMMANDS = {
    "run": ("small.toml",),
    "account": ("small.toml",),
    "account with long names": ("small.toml", LONG_NAMES),
    "account --explain": ("small.toml", LONG_NAMES, FULL, "--explain"),
    "account --per-agent": ("small.toml", LONG_NAMES, "--per-agent"),
    "account of coalitions": ("masked.toml",),
    "account of hospitals": ("own.toml", "--per-agent"),
    "check of hospitals": ("own.toml",),
    "run of hospitals": ("own.toml",),
    "calibrate": ("small.toml", FULL, "--epsilon", 2),
    "calibrate in vain": ("small.toml", FULL, "--epsilon", 2, "--noise", 1e-9),
    "compare": ("compared.toml",),
    "pairwise": ("gossip.toml", "--explain"),
    "pairwise of a walk": ("walk.toml", "--workers", 1, "--explain"),
    "pairwise of a path": ("walk.toml", "--published-seed", 4, "--explain"),
    "audit": ("audited.toml", *ASKED, "--observer", "eavesdropper", "--observer", "eavesdropper+final_model"),
    "gradients": ("small.toml",),
    "reproduce": ("walking",),
    "reproduce list": (),
    "list": (),
    "list --quiet": (),
    "doctor": (),
    "new": ("other.toml",),
}
SLOW = {"demo": ()}


OWN_RECORDS = "age,hospital,ill\n" + "".join(
    f"{20 + k},{('Kantonsspital Graubuenden Chur', 'Universitaetsspital Basel', 'Inselspital')[k % 3]},{'yes' if k % 2 else 'no'}\n" for k in range(60)
)  # fmt: skip
OWN = (
    """
[experiment]
name = "own"
rounds = 3
[topology]
kind = "complete"
[problem]
kind = "logistic_regression"
data = "own.csv"
owner = "hospital"
target = "ill"
labels = ["no", "yes"]
bounds = { age = [0, 120] }
ridge = 0.1
[algorithm]
kind = "atc"
step_size = 0.1
[noise]
kind = "independent"
law = "gaussian"
std = 0.5
"""
    + PRIVACY
)


@pytest.fixture
def printed(sottovoce, small, tmp_path, monkeypatch):
    """What a command prints at a width; it is run once, and its output laid out for every width."""
    small.write_text(small.read_text() + PRIVACY)
    texts = {"masked": MASKED, "compared": COMPARED, "gossip": GOSSIP, "walk": WALKING, "audited": AUDITED, "own": OWN}
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text)
    (tmp_path / "own.csv").write_text(OWN_RECORDS)
    (tmp_path / "walking").mkdir()
    (tmp_path / "walking" / "config.toml").write_text(WALK)
    shown = []

    class Kept(Console):
        def print(self, *things, **_):
            shown.extend(things)

    monkeypatch.setattr(output, "Console", Kept)
    for figures in ("comparison_figures", "pairs_figures"):  # they take most of the time, and print nothing
        monkeypatch.setattr(reports, figures, lambda *_, **__: [])

    def run(title: str, arguments: tuple[object, ...]):
        words = re.sub(r" (with|of|in) .*", "", title).split()
        result = sottovoce(*words, *arguments)
        assert result.exit_code == 0, result.output
        assert result.stdout == ""  # everything goes through the one way of printing
        return lambda width: _laid_out(shown, width)

    return run


def _laid_out(shown, width: int) -> list[str]:
    console = Console(width=width, emoji=False, highlight=False)
    with console.capture() as caught:
        for each in shown:
            console.print(each, crop=False)
    return caught.get().splitlines()


def check(lines_at) -> None:
    everything = "\n".join(lines_at(1000))
    numbers = set(NUMBER.findall(everything))
    for width in WIDTHS:
        lines = lines_at(width)
        assert max(map(len, lines)) <= width, max(lines, key=len)
        assert "…" not in "\n".join(lines)
        assert numbers <= set(NUMBER.findall("\n".join(lines)))


@pytest.mark.parametrize("title", COMMANDS)
def test_what_a_command_prints_fits(printed, title):
    check(printed(title, COMMANDS[title]))


@pytest.mark.slow
@pytest.mark.parametrize("title", SLOW)
def test_what_a_long_command_prints_fits(printed, title):
    (Path.cwd() / "reproductions").symlink_to(Path(__file__).parents[2] / "reproductions")
    check(printed(title, SLOW[title]))


def test_the_width_of_the_terminal_is_used(sottovoce, small, monkeypatch):
    small.write_text(small.read_text() + PRIVACY)
    widest = []
    for width in (60, *WIDTHS):
        monkeypatch.setenv("COLUMNS", str(width))
        widest.append(max(map(len, sottovoce("account", small, LONG_NAMES).stdout.splitlines())))
        assert widest[-1] <= width
    assert widest == sorted(set(widest))


def test_help_fits(sottovoce, monkeypatch):
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        assert max(map(len, sottovoce("calibrate", "--help").stdout.splitlines())) <= width


def test_a_number_that_is_cut_would_be_noticed():
    with pytest.raises(AssertionError):
        check(lambda width: ["0.1234"] if width == 1000 else ["0.12", "34"])
