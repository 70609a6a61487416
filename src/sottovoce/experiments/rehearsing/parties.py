"""All parties of a rehearsal: folders, keys, roster and ledgers, the processes, and what they say."""

import contextlib
import json
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.ledger import create_ledger
from sottovoce.deployment.terms import Agreement, without_masks
from sottovoce.durable_files import write_json
from sottovoce.errors import ConfigError
from sottovoce.experiments.agreed import agreement_on, members_of
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.deployment import DeploymentSection
from sottovoce.experiments.rehearsing.process import CONFIG, DRAWS, KEYS, ROSTER, STORE
from sottovoce.experiments.rehearsing.saved_draws import save_draws
from sottovoce.experiments.without_data import PublicParts, public_parts
from sottovoce.reprs import short_repr

MOST_PARTIES = 32
TIME_LIMIT = 120  # seconds without progress, unless the file says otherwise
_ENDING = 5.0  # seconds that a process has to end


class Event(NamedTuple):
    """What a party said, or that its process ended."""

    party: str
    values: dict[str, Any]

    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rehearsal:
    """A rehearsal that is ready to start.

    Attributes:
        config: as parties read it.
        folder: with everything in it.
        parts: what all parties know.
        agreement: what they agree on.
        secret: whether parties draw from the operating system, so that nothing can be compared.
    """

    config: Config
    folder: Path
    parts: PublicParts
    agreement: Agreement
    secret: bool

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def names(self) -> tuple[str, ...]:
        """All parties."""
        return tuple(member.name for member in self.agreement.members)

    def store(self, name: str) -> Path:
        """The store of a party."""
        return self.folder / name / STORE

    def run(self) -> Iterator[Event]:
        """Start all parties and yield what they say, until the last process has ended; whatever happens, none is left behind."""
        said: queue.SimpleQueue[Event] = queue.SimpleQueue()
        processes: dict[str, subprocess.Popen[str]] = {}
        try:
            for name in self.names:
                processes[name] = self._start(name)
                threading.Thread(target=_listen, args=(name, processes[name], said), daemon=True).start()
            running = set(self.names)
            while running:
                event = said.get()
                if event.values["event"] == "ended":
                    running.discard(event.party)
                yield event
        finally:
            _end(list(processes.values()))

    def _start(self, name: str) -> "subprocess.Popen[str]":
        errors = self.folder / name / "errors.txt"
        with errors.open("w", encoding="utf-8") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "sottovoce.experiments.rehearsing.process", str(self.folder), name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )


def prepare_rehearsal(config: Config, folder: Path, *, secret: bool) -> Rehearsal:
    """Make folders, keys, roster, ledgers and, unless parties draw for themselves, the random numbers of a rehearsal.

    Args:
        config: what the file says.
        folder: empty, for this rehearsal alone.
        secret: parties draw from the operating system.

    Raises:
        ConfigError: something is missing, or there are too many parties.
        IncompatibleChoice: parties cannot run it.
    """
    config = _for_parties(config)
    agents = public_parts(config).run.num_agents
    if agents > MOST_PARTIES:
        raise ConfigError(
            f"{agents} agents would be as many processes on this machine; a rehearsal starts at most {MOST_PARTIES}. Give topology.agents={MOST_PARTIES}."
        )
    parts = public_parts(config, names=_named(config))
    roster = _roster(folder, parts)
    agreed = agreement_on(config, parts, members_of(roster))
    resolved = _resolved(config, agreed)
    write_json(folder / CONFIG, resolved.as_dict(), private=True)
    for name in roster.names:
        create_ledger(
            folder / name / STORE,
            name=f"rehearsal of {name}",
            unit=agreed.protection.unit,
            adjacency=agreed.protection.adjacency,
            delta=agreed.protection.delta or 1e-5,
            budget="unlimited",
        )
    if not secret:
        _draw(config, parts, agreed, folder / DRAWS)
    return Rehearsal(config=resolved, folder=folder, parts=parts, agreement=agreed, secret=secret)


def _for_parties(config: Config) -> Config:
    """The file with a table [deployment], whose run is this rehearsal's alone."""
    given = config.deployment or DeploymentSection(run="rehearsal", roster=ROSTER, time_limit=TIME_LIMIT)
    run = f"rehearsal-{time.time_ns():x}"
    aside = {"test": None, "test_fraction": 0.0}  # parties learn from all records of their files
    problem = config.problem.model_copy(update={key: none for key, none in aside.items() if key in type(config.problem).model_fields})  # fmt: skip
    deployment = given.model_copy(update={"run": run, "roster": ROSTER})
    return config.model_copy(update={"deployment": deployment, "problem": problem})


def _named(config: Config) -> tuple[str, ...] | None:
    """The agents that [deployment] records names, in the order of a roster: an owner column alone says none before it is read."""
    records = None if config.deployment is None else config.deployment.records
    return tuple(sorted(records)) if records else None


def _resolved(config: Config, agreed: Agreement) -> Config:
    """The same with the resolution of the lattice written out, so that parties need not choose it again."""
    assert config.deployment is not None  # `_for_parties` put it there
    return config.model_copy(
        update={"deployment": config.deployment.model_copy(update={"fraction_bits": agreed.fraction_bits})}
    )


def _roster(folder: Path, parts: PublicParts) -> Roster:
    agents = parts.names or tuple(f"party-{number:02d}" for number in range(parts.run.num_agents))
    roles = {**dict.fromkeys(agents, "agent"), **{role: role for role in _beside(parts)}}
    entries = []
    for (name, role), port in zip(roles.items(), _free_ports(len(roles)), strict=True):
        identity = new_identity(name, folder / name / KEYS, f"127.0.0.1:{port}", role=role)
        entries.append(identity.entry())
    roster = Roster.of(entries)
    roster.save(folder / ROSTER)
    return roster


def _beside(parts: PublicParts) -> tuple[str, ...]:
    """Who is needed beside the agents."""
    if parts.run.algorithm.aggregation is not None:
        return "board", "beacon"
    return ("relay",) if parts.run.topology.relay else ()


def _free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens at just now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _draw(config: Config, parts: PublicParts, agreed: Agreement, folder: Path) -> None:
    from sottovoce.experiments.build import build
    from sottovoce.simulation import drawn

    run = without_masks(parts.run)
    draws = drawn(
        build(config).problem,
        run.topology,
        run.algorithm,
        run.noise,
        rounds=run.rounds,
        seed=config.experiment.seed,
        batch_size=run.batch_size,
        fraction_bits=agreed.fraction_bits,
    )
    save_draws(draws, run, folder)


def _listen(name: str, process: "subprocess.Popen[str]", said: "queue.SimpleQueue[Event]") -> None:
    output: IO[str] | None = process.stdout
    assert output is not None  # it was asked for
    with output:
        for line in output:
            with contextlib.suppress(ValueError):
                said.put(Event(name, json.loads(line)))
    said.put(Event(name, {"event": "ended", "code": process.wait()}))


def _end(processes: "list[subprocess.Popen[str]]") -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _ENDING
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
