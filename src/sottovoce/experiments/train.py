"""Train one model that may be released, for whoever holds all records on one machine.

The agents of the file play their parts in one process, in whole numbers, through the functions that parties call; noise, keys and coins come from the
operating system, and none of them is kept. The order decides what is safe:

    1  what the model will give away is proven, and everything that can be refused is refused
    2  the cost is reserved in the data set's ledger, and counted as spent: both are on the disk
    3  only then is the first random number drawn, and the rounds are played
    4  model.json and model.safetensors are written; owner-only.json holds what was measured on test records

A process that is stopped or killed after 2 has given nothing away, and its reservation stays spent all the same: the ledger cannot know what somebody
saw. Every training is an entry, also those of a search for good settings.
"""

import contextlib
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.deployment.agent import play
from sottovoce.deployment.integers import Lattice, SecretRandomness
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.terms import PublicCoin
from sottovoce.durable_files import write_json
from sottovoce.errors import BudgetExhausted, ConfigError
from sottovoce.experiments.config.config import Config
from sottovoce.experiments.config.ledger import LedgerSection
from sottovoce.experiments.experiment import Experiment
from sottovoce.experiments.guarantee_words import in_words
from sottovoce.experiments.model_file import KINDS, MODEL_JSON, configuration_digest, write_model
from sottovoce.experiments.privacy import statement
from sottovoce.experiments.release import Release, prepare_release
from sottovoce.experiments.results_folder import check_folder, results_folder
from sottovoce.experiments.scores import measure_of
from sottovoce.experiments.worth import OWNER_ONLY, Row, Worth
from sottovoce.linear import centroid
from sottovoce.rounding import shown
from sottovoce.simulation import model_of, round_bar, working_on

NOTHING_HIDDEN = "trained, but nothing is promised against whoever gets the model: epsilon is infinite; not for release"
OTHERS_ADD_UP = "This counts one training: whatever else is released about the same records adds to it."
_KEY_BYTES = 32
_RUNNING = 0  # the one position that a training has in its store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """A model that may be released, and what was said about it.

    Attributes:
        folder: with model.json and model.safetensors.
        releasable: whether its guarantee is finite.
        stated: the guarantee as plain values, as `sottovoce account` has it.
        ledger: what the data set's ledger says now, as plain values.
        owner_only: what was measured, as in `owner-only.json`; for the data's owner.
        notes: what was done otherwise than the file says, and what whole numbers cost.
    """

    folder: Path
    releasable: bool
    stated: dict[str, Any]
    ledger: dict[str, Any]
    owner_only: dict[str, Any]
    notes: tuple[str, ...]


class TrainingStopped(KeyboardInterrupt):
    """Somebody stopped a training after its cost was reserved."""

    def __init__(self, ledger: str, *, written: bool) -> None:
        """Say what stays.

        Args:
            ledger: the name of its data set.
            written: whether the model is there.
        """
        made = "the model was written" if written else "no model was written"
        super().__init__(
            f"stopped; {made}. What the training was to cost stays spent in the ledger of {ledger!r}: the same command is one more training."
        )


def default_training_folder(config: Config) -> Path:
    """`trained/NAME`."""
    return Path("trained") / config.experiment.name


def train_model(config: Config, folder: str | Path, *, progress: bool = True) -> Trained:
    """Train one model with secret randomness, and write it with its guarantee into a new folder.

    Args:
        config: what to train, with a section [ledger].
        folder: of the model; nothing may be in it.
        progress: show a bar.

    Raises:
        BudgetExhausted: the ledger or the file does not allow what the model would give away; nothing was written.
        ConfigError: the folder is not new, there is no ledger, or something that decides privacy is not said.
        TrainingStopped: somebody interrupted it after its cost was reserved.
    """
    place, section = Path(folder), _ledger_of(config)
    _refuse_used(place)
    with working_on("working out what the model will give away", shown=progress):
        ready = prepare_release(config)
    if ready.experiment.problem.kind not in KINDS:
        raise ConfigError(f"a model of {ready.experiment.problem.kind!r} cannot be written to a file.")
    with results_folder(place), _open_ledger(section, ready) as ledger:
        agreement = _agreement(ready)
        digest = hashlib.sha256(agreement).digest()
        try:
            _reserve(ledger, ready, agreement, digest)
            with round_bar(ready.run.rounds, shown=progress) as advance:
                models = _play(ready, digest, advance)
            told = _written(place, ready, models)
            ledger.store.finish(digest, None)
            return replace(told, ledger=_counted(ledger))
        except KeyboardInterrupt as stop:
            if ledger.store.run(digest) is None:
                raise
            raise TrainingStopped(section.name, written=(place / MODEL_JSON).exists()) from stop
        finally:
            _close(ledger, digest)


def _ledger_of(config: Config) -> LedgerSection:
    if config.ledger is None:
        raise ConfigError(
            "a training is counted in the ledger of its data set, and none is named. Add a section [ledger] with store, name and budget, or give "
            "--ledger, --dataset and --budget."
        )
    return config.ledger


def _refuse_used(folder: Path) -> None:
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty, and every training makes a new model. Choose another with --out.")


@contextlib.contextmanager
def _open_ledger(section: LedgerSection, ready: Release) -> Iterator[Ledger]:
    """The ledger of the data set, begun where there is none, and closed in the end; one that counts something else is refused."""
    path, privacy = Path(section.store), ready.experiment.privacy
    assert privacy is not None  # a release without is refused
    if not path.exists():
        if section.budget is None or privacy.delta is None:
            missing = "[ledger] budget" if section.budget is None else "[privacy] delta"
            raise ConfigError(
                f"{path} is new, and a ledger needs {missing}, for which there is no default. Write it; a budget is an epsilon, or "
                f'"unlimited".'
            )
        _refuse_over(section.budget, ready, privacy.delta)
        create_ledger(
            path, name=section.name, unit=privacy.unit, adjacency=privacy.adjacency, delta=privacy.delta, budget=section.budget
        )  # fmt: skip
    with Store.open(path) as store:
        ledger = Ledger(store)
        _refuse_other(ledger, section)
        yield ledger


def _refuse_over(budget: float | str, ready: Release, delta: float) -> None:
    """Refuse a training that exceeds a budget alone, before a ledger is begun for it."""
    needed = min(cost.epsilon(delta) for cost in _forms(ready, 0.5 * delta))
    if not isinstance(budget, str) and needed > budget:
        told = "an infinite epsilon" if np.isinf(needed) else f"epsilon = {shown(needed, 6)} at delta = {delta:g}"
        raise BudgetExhausted(
            f"whoever gets the model would have {told}; [ledger] budget allows {budget:g}. Use more noise or fewer rounds, or a larger budget. "
            f"Nothing was trained."
        )


def _refuse_other(ledger: Ledger, section: LedgerSection) -> None:
    created = ledger.created
    if created.name != section.name:
        raise ConfigError(
            f"{section.store} is the ledger of {created.name!r}, and [ledger] name is {section.name!r}. Write the name that it has, or keep "
            f"another ledger for another data set."
        )
    if section.budget is not None and section.budget != created.budget:
        raise ConfigError(
            f"[ledger] budget = {section.budget!r}, and the ledger of {created.name!r} was begun with {created.budget!r}, which does not change. "
            f"Write that, or leave budget out."
        )


def _agreement(ready: Release) -> bytes:
    """What stands in the place of an agreement between parties: which training this is; two trainings never have the same."""
    named = {
        "kind": "training",
        "configuration": configuration_digest(ready.config.as_dict()),
        "fraction_bits": ready.fraction_bits,
        "sottovoce": version("sottovoce"),
        "this_training": secrets.token_hex(_KEY_BYTES),
    }
    return json.dumps(named, sort_keys=True).encode("ascii")


def _reserve(ledger: Ledger, ready: Release, agreement: bytes, digest: bytes) -> None:
    """Reserve the cost, and count it as spent, on the disk.

    Raises:
        BudgetExhausted: the ledger does not allow it.
    """
    privacy, cost = ready.experiment.privacy, _cost(ledger, ready)
    assert privacy is not None  # a release without is refused
    name = f"train {ready.config.experiment.name}"
    reservation = ledger.reserve(
        name, digest, cost, unit=privacy.unit, adjacency=privacy.adjacency, observer="whoever gets the model",
        data=ledger.keyed_digest(_bytes_of(ready.experiment)),
    )  # fmt: skip
    ledger.store.begin_run(digest, name, agreement, reservation, b"")
    nothing = np.zeros(0, dtype=np.int64)
    ledger.store.commit(digest, _RUNNING, state=nothing, held={}, outgoing={}, spent=cost.describe())


def _cost(ledger: Ledger, ready: Release) -> Cost:
    """What the ledger keeps: of the forms that a cost has, the one that adds least."""
    return min(_forms(ready, ledger.next_share()), key=ledger.with_run)


def _forms(ready: Release, share: float) -> list[Cost]:
    """The cost of a training: mu of Gaussian noise; of Laplace noise its pure epsilon, and what its rounds compose to at a share of delta."""
    composed = ready.cost.kind == "pure" and share > 0
    return [ready.cost, ready.cost_at(share)] if composed else [ready.cost]


def _bytes_of(experiment: Experiment) -> Iterator[bytes]:
    for name, values in sorted(experiment.records.items()):
        yield f"{name} {values.dtype} {values.shape} ".encode()
        yield np.ascontiguousarray(values).tobytes()


def _play(ready: Release, digest: bytes, advance: Callable[[int], None]) -> np.ndarray:
    """[K, d] the models after the last round, from random numbers that exist nowhere else."""
    pairs: dict[frozenset[int], bytes] = {}

    def randomness_of(agent: int) -> SecretRandomness:
        def key_with(other: int) -> bytes:
            return pairs.setdefault(frozenset((agent, other)), secrets.token_bytes(_KEY_BYTES))

        return SecretRandomness(ready.run.noise.law, ready.run.dimension, key_with, run=digest)

    coin = PublicCoin(secrets.token_bytes(_KEY_BYTES))
    lattice = Lattice(ready.fraction_bits)
    return play(ready.run, lattice, ready.experiment.problem, randomness_of, coin, advance, relay_trusted=True)


def _written(folder: Path, ready: Release, models: np.ndarray) -> Trained:
    """Write the model and what the owner may know, and say all of it."""
    experiment = ready.experiment
    common = centroid(experiment.algorithm, experiment.topology).weights @ models
    stated = statement(experiment, [ready.guarantee])
    told = _measured(experiment, common)
    write_model(
        folder,
        model_of(experiment.describe(), common),
        guarantee=[*in_words(stated), OTHERS_ADD_UP],
        configuration=ready.config.as_dict(),
        version=version("sottovoce"),
        releasable=ready.releasable,
        why=None if ready.releasable else NOTHING_HIDDEN,
    )
    write_json(folder / OWNER_ONLY, told, private=True)
    return Trained(
        folder=folder, releasable=ready.releasable, stated=stated, ledger={}, owner_only=told, notes=ready.notes
    )


def _measured(experiment: Experiment, common: np.ndarray) -> dict[str, Any]:
    """What the model reaches on the owner's records, beside not learning at all."""
    measure = measure_of(experiment)
    rows = {"together": Row(common=measure.score(common))}
    if measure.without_learning is not None:
        rows = {"without learning": Row(common=measure.without_learning), **rows}
    return Worth(measure=measure, rows=rows, alone=np.zeros(0), notes=()).describe()


def _counted(ledger: Ledger) -> dict[str, Any]:
    """What the ledger says now, as plain values; an infinite sum is null."""
    totals = ledger.totals()
    return {
        "name": ledger.created.name,
        "runs": totals.runs,
        "reserved": None if np.isinf(totals.reserved) else totals.reserved,
        "budget": totals.budget,
        "delta": totals.delta,
    }


def _close(ledger: Ledger, digest: bytes) -> None:
    """The training is over, however it ended; what it cost stays."""
    run = ledger.store.run(digest)
    if run is not None and run.status == "running":
        ledger.store.give_up(digest)
