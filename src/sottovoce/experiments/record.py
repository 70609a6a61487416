"""Run folders: what a run leaves on disk, written so that it may be killed at any moment and continued.

    run.json               format version, status, configuration, versions, description, keyed digest of the records
    resume.key             the secret of that digest (same_records); for its owner alone
    chunks/0000000100.safetensors    metrics of the rounds of one chunk, named by its last round
    checkpoint.safetensors engine state after the last complete chunk
    metrics.safetensors, models.safetensors, metrics.csv     the whole run, once it has finished
    guarantees.json        what is proven for its observers, if it named any
    models_by_round.npy    every agent's model after every round, if they were recorded (trajectory.py)
    model.json, model.safetensors    the common model of the first repeat, with all that is needed to use it (model_file)

Every file is written under another name, flushed, and renamed. Two renames decide: a chunk counts once the checkpoint that follows it
is in place, and a run is finished once run.json says so; whatever else a killed process left is overwritten or removed.
The folder belongs to whoever has the data: run.json names their file, metrics are exact statistics of them, and of the agents' own models nothing
is promised to whoever gets the common one. Metrics, models and checkpoints are readable by their owner alone.
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file
from safetensors.numpy import save as to_bytes

from sottovoce.durable_files import write, write_json
from sottovoce.errors import ConfigError, Diverged
from sottovoce.experiments import trajectory
from sottovoce.experiments.guarantee_words import in_words
from sottovoce.experiments.model_file import KINDS, write_model
from sottovoce.experiments.results_folder import check_folder, make_folder, results_folder
from sottovoce.experiments.same_records import KEY_FILE, check_same_records, keyed_digest
from sottovoce.experiments.versions import versions
from sottovoce.simulation import Run, join
from sottovoce.wording import brief

FORMAT_VERSION = 1

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An open run folder, held by this process alone."""

    folder: Path
    header: dict[str, Any]  # what run.json holds
    start: tuple[int, dict[str, np.ndarray]] | None  # round and engine state to continue from; None: from the beginning

    @property
    def finished(self) -> bool:
        """Whether the run was already complete when the folder was opened."""
        return bool(self.header["status"] == "finished")

    def add_chunk(self, last_round: int, metrics: Arrays, state: Arrays, *, final_models: Arrays | None = None) -> None:
        """Store one chunk: its metrics ([repeats, rounds of the chunk] each), then the checkpoint that makes it count.

        Args:
            last_round: of the chunk.
            metrics: of its rounds.
            state: of the engine, to continue from.
            final_models: of the last chunk, `models` of the agents and what they have in `common`; they must be safe before the checkpoint
                says that no round is left.
        """
        _save(_chunk_file(self.folder, last_round), metrics)
        if final_models is not None:
            _save(self.folder / "models.safetensors", final_models)
        _save(self.folder / "checkpoint.safetensors", state, {"round": str(last_round)})

    def finish(self, guarantees: Mapping[str, Any] | None = None) -> Run:
        """Gather the chunks into one file, store what is guaranteed, mark the run as finished, and read it back."""
        files = _chunk_files(self.folder)
        with _readable(self.folder):
            parts = [_load(path) for path in files]
            metrics = join(parts)
            if any(values.shape[1] != int(files[-1].stem) for values in metrics.values()):
                raise ValueError("a chunk is missing")
        _save(self.folder / "metrics.safetensors", metrics)
        write(self.folder / "metrics.csv", _csv(metrics).encode(), private=True)
        if guarantees is not None:
            write_json(self.folder / "guarantees.json", guarantees, private=True)
        with _readable(self.folder):
            held = _load(self.folder / "models.safetensors")
        run = Run(
            metrics=metrics, models=held["models"], description=self.header["description"], common=held.get("common")
        )
        _save_model(self.folder, run, guarantees, self.header["config"])
        write_json(self.folder / "run.json", {**self.header, "status": "finished"}, private=True)
        _remove_partial_results(self.folder)
        return load_run(self.folder)


@contextlib.contextmanager
def open_record(
    folder: Path, *, config: dict[str, Any], description: dict[str, Any], records: Arrays | None = None
) -> Iterator[Record]:
    """Open a folder for a run: a new one, or one that this very configuration began before, on these very records.

    Args:
        folder: of the run.
        config: what names the run.
        description: of what is run.
        records: all that it learns from and is tested on.

    Raises:
        ConfigError: if the folder belongs to something else, to a run of another configuration, to an unfinished run of other library
            versions (its continuation would not be the same run), or is being written by another process.
    """
    check_folder(folder)
    if folder.is_dir() and not (folder / "run.json").exists() and any(not _ours(path) for path in folder.iterdir()):
        raise ConfigError(f"{folder} exists and is not a run folder; choose another with --out.")
    with results_folder(folder), _only_writer(folder):
        for leftover in folder.rglob("*.part"):
            leftover.unlink()
        record = _opened(folder, config, description, records or {})
        try:
            yield record
        except BaseException as error:
            # A run without a checkpoint has nothing to continue from, and one that diverged would do so again, bit for bit.
            hopeless = isinstance(error, Diverged) or not (folder / "checkpoint.safetensors").exists()
            if hopeless and not record.finished:
                _forget(folder)
            raise


def _opened(folder: Path, config: dict[str, Any], description: dict[str, Any], records: Arrays) -> Record:
    """The record of a folder that this process holds; a new run's header is written first."""
    if not (folder / "run.json").exists():
        header: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "status": "running",
            "config": config,
            "versions": versions(),
            "description": description,
            "records": keyed_digest(records, folder) if records else None,
        }
        write_json(folder / "run.json", header, private=True)
        return Record(folder=folder, header=header, start=None)
    header = _read_header(folder)
    _check_same_run(folder, header, config)
    check_same_records(header, records, folder)
    if "data_digest" in header["description"]:
        header = _with_key(header, records, folder)
    if header["status"] == "finished":
        _remove_partial_results(folder)
        return Record(folder=folder, header=header, start=None)
    return Record(folder=folder, header=header, start=_last_checkpoint(folder))


def _with_key(header: dict[str, Any], records: Arrays, folder: Path) -> dict[str, Any]:
    """The header of a folder of version 0.1.0, written again with a keyed digest in place of one that anybody can check."""
    renewed = {
        **header,
        "description": _without_digest(header["description"]),
        "records": keyed_digest(records, folder),
    }
    write_json(folder / "run.json", renewed, private=True)
    return renewed


def _without_digest(description: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in description.items() if key != "data_digest"}


def save(run: Run, path: str | Path) -> None:
    """Write a run that was simulated in Python into a new folder, as `sottovoce run` would; `load` reads it back.

    Raises:
        ConfigError: the folder exists and is not empty.
    """
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is not an empty folder; a run is saved into a new one.")
    make_folder(folder)
    common = {} if run.common is None else {"common": run.common}
    _save(folder / "models.safetensors", {"models": run.models, **common})
    if run.models_by_round is not None:
        trajectory.save_models(folder, run.models_by_round)
    _save(folder / "metrics.safetensors", run.metrics)
    write(folder / "metrics.csv", _csv(run.metrics).encode(), private=True)
    _save_model(folder, run, None, None)
    header = {"format_version": FORMAT_VERSION, "status": "finished", "config": None, "versions": versions()}
    write_json(
        folder / "run.json", {**header, "description": _without_digest(run.description)}, private=True
    )  # last: it makes the folder a run


def _save_model(folder: Path, run: Run, guarantees: Mapping[str, Any] | None, config: Mapping[str, Any] | None) -> None:
    """Write the common model of the first repeat, where the run has one of a kind that a file can describe."""
    if run.common is not None and run.description["problem"]["kind"] in KINDS:
        words = in_words(guarantees)
        write_model(folder, run.model(), guarantee=words, configuration=config, version=version("sottovoce"))


def load(path: str | Path) -> Any:
    """Read a finished run back from its folder (a `Run`), or a design of noise from its file (a `Design`).

    Raises:
        ConfigError: there is none, it has not finished, or another version of the format wrote it.
    """
    from sottovoce.design import load_design  # its solvers take a while to load, and only this needs it

    return load_design(path) if Path(path).is_file() else load_run(path)


def load_run(path: str | Path) -> Run:
    """As `load`, for runs alone."""
    folder = Path(path)
    if not (folder / "run.json").is_file():
        raise ConfigError(
            f"{folder} is not a run folder (it has no run.json). Give the folder that `sottovoce run` printed."
        )
    header = _read_header(folder)
    if header["status"] != "finished":
        raise ConfigError(f"{folder} holds an unfinished run; run it again to resume.")
    with _readable(folder):
        metrics = _load(folder / "metrics.safetensors")
        held = _load(folder / "models.safetensors")
        models = held["models"]
    every_round = trajectory.read_models(folder, models)
    described = _without_digest(header["description"])
    return Run(
        metrics=metrics, models=models, description=described, common=held.get("common"), models_by_round=every_round
    )


def load_guarantees(path: str | Path) -> dict[str, Any] | None:
    """What is proven for the observers of a finished run: delta, guarantees and notes; None if it named no observers."""
    folder = Path(path)
    if not (folder / "guarantees.json").exists():
        return None
    with _readable(folder):
        stated: dict[str, Any] = json.loads((folder / "guarantees.json").read_text(encoding="utf-8"))
    return stated


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a complete run, of whatever configuration.

    Raises:
        ConfigError: nothing can have this name, or the run is damaged.
    """
    check_folder(folder)
    return (folder / "run.json").is_file() and bool(_read_header(folder)["status"] == "finished")


def rounds_stored(folder: Path) -> int:
    """How many rounds of a run are safe in its folder."""
    if is_finished(folder):
        return int(_read_header(folder)["description"]["rounds"])
    if not (folder / "checkpoint.safetensors").exists():
        return 0
    with _readable(folder), safe_open(folder / "checkpoint.safetensors", framework="numpy") as file:
        return int(file.metadata()["round"])


def _read_header(folder: Path) -> dict[str, Any]:
    with _readable(folder):
        header: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        if header["format_version"] != FORMAT_VERSION:
            raise ConfigError(
                f"{folder} has format_version {header['format_version']!r}; this version of sottovoce reads {FORMAT_VERSION}. "
                f"Read it with the version that wrote it."
            )
        kinds = {"status": str, "config": dict | None, "versions": dict, "description": dict}
        wrong = [key for key, kind in kinds.items() if not isinstance(header[key], kind)]
        if wrong:
            raise ValueError(f"run.json: {', '.join(wrong)}")
    return header


def _check_same_run(folder: Path, header: dict[str, Any], config: dict[str, Any]) -> None:
    if header["config"] is None:
        raise ConfigError(f"{folder} holds a run that was saved from Python; choose another folder with --out.")
    if header["config"] != config:
        changed = sorted(_differences(header["config"], config))
        raise ConfigError(
            f"{folder} holds a run of another configuration ({', '.join(changed)}); choose another folder with --out."
        )
    now = versions()
    other = [
        f"{name} {then}, now {now.get(name)}" for name, then in header["versions"].items() if now.get(name) != then
    ]
    if other and header["status"] != "finished":
        raise ConfigError(
            f"{folder} holds an unfinished run begun with {'; '.join(other)}. Continue it with those versions, or choose another "
            f"folder with --out."
        )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, f"{prefix}{key}.")
        elif before != after:
            yield f"{prefix}{key}"


def _last_checkpoint(folder: Path) -> tuple[int, dict[str, np.ndarray]] | None:
    """The state to continue from; chunks beyond it do not count and are removed."""
    path = folder / "checkpoint.safetensors"
    last = 0
    state: dict[str, np.ndarray] = {}
    if path.exists():
        with _readable(folder), safe_open(path, framework="numpy") as file:
            last = int(file.metadata()["round"])
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    for chunk in _chunk_files(folder):
        if int(chunk.stem) > last:
            chunk.unlink()
    return (last, state) if last else None


def _chunk_file(folder: Path, last_round: int) -> Path:
    return folder / "chunks" / f"{last_round:010d}.safetensors"


def _chunk_files(folder: Path) -> list[Path]:
    return sorted((folder / "chunks").glob("*.safetensors"))


def _remove_partial_results(folder: Path) -> None:
    shutil.rmtree(folder / "chunks", ignore_errors=True)
    (folder / "checkpoint.safetensors").unlink(missing_ok=True)


def _forget(folder: Path) -> None:
    """Leave nothing behind of a run that was refused, or failed, before its first checkpoint."""
    _remove_partial_results(folder)
    for name in ("run.json", "run.lock", "models.safetensors", trajectory.NAME, KEY_FILE):
        (folder / name).unlink(missing_ok=True)


def _ours(path: Path) -> bool:
    return path.name in ("run.lock", KEY_FILE) or path.suffix == ".part"


@contextlib.contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn whatever a damaged file provokes into one clear error."""
    try:
        yield
    except ConfigError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise ConfigError(
            f"{folder} is damaged ({type(error).__name__}: {brief(str(error), 200)}); remove it and run again."
        ) from error


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder; the operating system lets go of the lock when a process dies, however it dies."""
    path = folder / "run.lock"
    new = not path.exists()
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat())
        except BlockingIOError:
            held = False
        if not held:  # a lock on a file that another process has just removed does not count
            raise ConfigError(
                f"{folder} is being written by another process; wait for it, or choose another with --out."
            )
        try:
            yield
        except BaseException:
            if new:
                path.unlink(missing_ok=True)
            raise


def _load(path: Path) -> dict[str, np.ndarray]:
    return dict(sorted(load_file(path).items()))


def _save(path: Path, arrays: Arrays, metadata: dict[str, str] | None = None) -> None:
    """For the owner alone: metrics are exact statistics of the records, and an agent's own model was promised to nobody."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write(path, to_bytes(contiguous, metadata), private=True)


def _csv(metrics: Arrays) -> str:
    """One row per round: its number and the mean over repeats of every metric."""
    means = {name: values.mean(axis=0, dtype=np.float64) for name, values in metrics.items()}
    rows = zip(*means.values(), strict=True)
    lines = [",".join(["round", *means])]
    lines += [",".join([str(number), *(f"{value:.9g}" for value in row)]) for number, row in enumerate(rows, start=1)]
    return "\n".join(lines) + "\n"
