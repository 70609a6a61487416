"""`sottovoce docs`: the pages that messages cite as docs/NAME.md, which come with the package."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, TableElement
from rich.table import Table
from rich.text import Text

from sottovoce.cli.output import JsonOption, QuietOption, show, table
from sottovoce.errors import ConfigError


def docs(
    page: Annotated[str | None, typer.Argument(help="Name of a page, such as guarantees; left out: list them.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the pages of the documentation, or read one; messages cite them as docs/NAME.md."""
    known = _pages()
    if page is None:
        titles = {name: _title(each) for name, each in known.items()}
        words = ("page", "about")
        text = "\n".join(titles) if quiet else table(words, titles.items(), words=words)
        show({"pages": titles}, as_json=as_json, text=text)
        return
    name = PurePath(page).name.removesuffix(".md")
    if name not in known:
        raise ConfigError(f"no page {page!r}; known: {', '.join(known)}.")
    source = known[name].read_text(encoding="utf-8")
    show({"page": name, "path": str(known[name]), "text": source}, as_json=as_json, text=_Page(source))


def _pages() -> dict[str, Traversable]:
    """Name -> file of every page, in alphabetical order."""
    found = {each.name.removesuffix(".md"): each for each in (files("sottovoce.cli") / "pages").iterdir() if each.name.endswith(".md")}  # fmt: skip
    return dict(sorted(found.items()))


class _WholeTable(TableElement):
    """A table whose long names are broken over lines, where Rich would cut them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


class _WholeCode(CodeBlock):
    """Lines to be copied, which stay whole however narrow the terminal is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(str(self.text).rstrip(), style="cyan", no_wrap=True, overflow="ignore")


class _Page(Markdown):
    """A page as the terminal shows it."""

    elements = {**Markdown.elements, "table_open": _WholeTable, "fence": _WholeCode, "code_block": _WholeCode}  # noqa: RUF012  (Rich declares it so)


def _title(page: Traversable) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
