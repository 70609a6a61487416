"""Tables and text fit the width they are given, and no number is cut or wrapped on the way."""

import os
import pty
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from sottovoce.cli.output import percent, table, wrapped

WORDS = st.text("abcdefghij ", max_size=60)
NUMBERS = st.floats(allow_nan=False).map(lambda value: f"{value:.4g}")


def lines(text: RenderableType, width: int) -> list[str]:
    console = Console(width=width, emoji=False, highlight=False)
    with console.capture() as caught:
        console.print(text, crop=False)
    return caught.get().splitlines()


@st.composite
def cells(draw: st.DrawFn) -> tuple[list[str], list[list[str]], list[str]]:
    numbers = draw(st.integers(1, 12))
    rows = [
        [draw(WORDS), *(draw(NUMBERS) for _ in range(numbers)), draw(WORDS)] for _ in range(draw(st.integers(1, 3)))
    ]
    header = ["what", *(f"number {i}" for i in range(numbers)), "why"]
    return header, rows, ["what", "why"]


@given(cells(), st.sampled_from([60, 80, 140]))
def test_tables_fit_and_keep_every_number_whole(drawn, width):
    header, rows, words = drawn
    printed = lines(table(header, rows, words=words, title="a title"), width)
    assert max(map(len, printed)) <= width
    assert not any("…" in line for line in printed)
    found = " ".join(printed).split()
    assert all(found.count(cell) >= 1 for row in rows for cell in row[1:-1])
    assert all(name in " ".join(printed) for name in header)


def test_a_table_that_is_too_wide_becomes_two_with_the_same_first_column():
    header = ["scheme", *(f"at epsilon = {i}" for i in range(6))]
    rows = [["ring", *(f"0.123{i} +- 0.001" for i in range(6))]]
    assert sum("scheme" in line for line in lines(table(header, rows, words=["scheme"]), 80)) == 2
    assert sum("scheme" in line for line in lines(table(header, rows, words=["scheme"]), 140)) == 1


def test_nothing_in_a_cell_is_markup():
    assert any("[red]x[/red]" in line for line in lines(table(["a"], [["[red]x[/red]"]], words=["a"]), 80))


def test_wrapped_text_keeps_paths_whole_and_its_own_line_breaks():
    path = "/a" * 60
    printed = lines(wrapped(f"first words\n  {'word ' * 40}and {path}"), 80)
    assert printed[0] == "first words"
    assert path in [line.strip() for line in printed]
    assert all(line.startswith("  ") for line in printed[1:])
    assert all(len(line) <= 80 for line in printed if path not in line)


def test_prose_does_not_use_the_whole_of_a_wide_terminal():
    assert 80 < max(map(len, lines(wrapped("word " * 100), 140))) <= 100


@pytest.mark.parametrize(("share", "said"), [(0.9141, "91.4 %"), (1.0, "100.0 %"), (None, ""), (float("nan"), "")])
def test_a_share_is_said_in_percent(share, said):
    assert percent(share) == said


def test_errors_are_wrapped_on_a_terminal_and_left_whole_for_programs():
    program = "from sottovoce.cli.output import complain; complain('sottovoce: ' + 'word ' * 60)"
    command, environment = [sys.executable, "-c", program], {**os.environ, "COLUMNS": "80"}
    piped = subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=True, timeout=60).stderr
    assert len(piped.splitlines()) == 1
    ours, theirs = pty.openpty()
    try:
        subprocess.run(command, env=environment, stderr=theirs, check=True, timeout=60)
        shown = os.read(ours, 4096).decode().splitlines()
    finally:
        os.close(ours)
        os.close(theirs)
    assert len(shown) > 3
    assert max(map(len, shown)) <= 80
