"""The command `sottovoce`. Thin: each command parses, calls the library and prints.

Exit codes: 0 done, 1 a verdict against something (a reproduction departs from its expected numbers, an audit refutes a
guarantee, a party is proven to cheat), 2 bad input (one paragraph on stderr, no traceback unless --debug), 3 a privacy
budget would be exceeded, 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

import contextlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sottovoce.cli.account import account
from sottovoce.cli.audit import audit
from sottovoce.cli.calibrate import calibrate
from sottovoce.cli.check import check
from sottovoce.cli.compare import compare
from sottovoce.cli.demo import demo
from sottovoce.cli.deploy_local import deploy_local
from sottovoce.cli.design import design
from sottovoce.cli.docs import docs
from sottovoce.cli.doctor import doctor
from sottovoce.cli.examples import epilog
from sottovoce.cli.gradients import gradients
from sottovoce.cli.keys import in_keys
from sottovoce.cli.ledger import ledger
from sottovoce.cli.listing import list_choices
from sottovoce.cli.new import new
from sottovoce.cli.output import complain, paragraph, show
from sottovoce.cli.own_keys import keys
from sottovoce.cli.pairwise import pairwise
from sottovoce.cli.party_run import party_run
from sottovoce.cli.party_status import party_status
from sottovoce.cli.predict import predict
from sottovoce.cli.relay import relay
from sottovoce.cli.reproduce import reproduce
from sottovoce.cli.roster import roster
from sottovoce.cli.run import run
from sottovoce.cli.train import train
from sottovoce.errors import BudgetExhausted, CheatingProven, ConfigError, SottovoceError

# Typer may bring its own copy of click, and exports no more of its errors than one kind of wrong command lines.
_UsageError: Any = typer.BadParameter.__mro__[1]


class _Refusals(TyperGroup):
    """Turns what the library refuses into one paragraph and an exit code."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _printable_usage():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _printable_usage():
                return super().invoke(ctx)
        except SottovoceError as error:
            if ctx.params["debug"]:
                raise
            complain(f"sottovoce: {in_keys(str(error))}")
            code = 3 if isinstance(error, BudgetExhausted) else 1 if isinstance(error, CheatingProven) else 2
            raise typer.Exit(code) from error
        except KeyboardInterrupt as stop:
            complain(f"sottovoce: {stop if str(stop) else 'stopped; the same command starts again.'}")
            raise typer.Exit(getattr(stop, "exit_code", 130)) from stop


@contextlib.contextmanager
def _printable_usage() -> Iterator[None]:
    """Let complaints about a command line repeat nothing that would write to the terminal."""
    try:
        yield
    except _UsageError as error:
        error.message = paragraph(error.message)
        raise


app = typer.Typer(
    cls=_Refusals,
    add_completion=True,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --version: print JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of refused input.")] = False,
) -> None:
    """Private distributed learning without a trusted server."""
    if show_version:
        show({"version": version("sottovoce")}, as_json=as_json, text=f"sottovoce {version('sottovoce')}")
        raise typer.Exit
    if as_json and context.invoked_subcommand is not None:
        raise ConfigError(
            f"--json stands before {context.invoked_subcommand!r}, where it belongs to --version. Write it after the command."
        )
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


for _command in (
    demo, new, check, run, train, predict, account, audit, calibrate, design, pairwise, gradients, compare, reproduce, list_choices, docs,
    doctor, ledger, keys, roster, relay, deploy_local,
):  # fmt: skip
    _name = _command.__name__.removesuffix("_choices").replace("_", "-")
    app.command(_name, epilog=epilog(_name))(_command)

party = typer.Typer(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
party.command("run", epilog=epilog("party run"))(party_run)
party.command("status", epilog=epilog("party status"))(party_status)
app.add_typer(party, name="party", help="Take part in a run with one's own data, and see where it stands.")


def main() -> None:
    """Entry point of the command."""
    app()


__all__ = ["app", "main"]


def __dir__() -> list[str]:
    return [*__all__]
