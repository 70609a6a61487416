"""A design: the noise, how large its error is and how much smaller one could be, and what every target is told by the accountant."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.accounting import GaussianTradeoff, Guarantee
from sottovoce.design.key_plan import KeyPlan
from sottovoce.durable_files import write_json
from sottovoce.errors import ConfigError
from sottovoce.noise import Gaussian, Noise, designed
from sottovoce.reprs import short_repr
from sottovoce.rounding import shown

FORMAT = 1
KIND = "noise design"
SAME = 1e-9  # relative difference of covariances that count as the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Noise made for targets.

    Attributes:
        noise: an ordinary scheme.
        error: the noise's part of the error that was asked for.
        bound: no noise made with these keys that keeps the targets has a smaller one.
        independent: the error of own noise alone that keeps the targets.
        guarantees: what the accountant states about this noise, by the observer's name.
        targets: the mu that was asked for, by the observer's name.
        largest_std: of what is added to a message, over agents and rounds.
        exact: the error is that of the losses given; False: of one contraction that stands for them.
        notes: what to know beside the numbers.
        settings: what was asked for, in plain values.
        unit_mu: [K] what a reader of all messages would learn under own noise of variance one.
    """

    noise: Noise
    error: float
    bound: float
    independent: float
    guarantees: Mapping[str, Guarantee]
    targets: Mapping[str, float]
    largest_std: float
    exact: bool
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    unit_mu: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def gap(self) -> float:
        """How much smaller the error could be at most, relative to the bound."""
        return self.error / self.bound - 1.0 if self.bound > 0 else math.inf

    @property
    def gain(self) -> float:
        """By how much the error of own noise alone is larger, at the same targets."""
        return self.independent / self.error

    def keys(self) -> KeyPlan:
        """Which agents share which stream of noise, with which factors, and what coalitions would learn."""
        return key_plan(self.noise, self.unit_mu)

    def __str__(self) -> str:
        lines = [
            f"noise part of the error {shown(self.error, 4)}, {self.gain:.4g} times smaller than with own noise alone",
            f"at most {shown(100 * self.gap, 3)} % above the best possible; largest std of a message {shown(self.largest_std, 4)}",
        ]
        for name, stated in self.guarantees.items():
            lines.append(f"{name}: mu = {shown(stated.mu or math.inf, 6)} ({stated.validity})")
        return "\n".join([*lines, *self.notes])

    def describe(self) -> dict[str, Any]:
        """Plain values."""
        noise: dict[str, Any] = {"std": self.noise.std, **self.noise.parameters}
        if self.noise.schedule is not None:
            noise["factors_by_round"] = [float(each) for each in self.noise.schedule]  # type: ignore[union-attr]
        if self.noise.memory is not None:
            noise["memory"] = self.noise.memory.tolist()
        return {
            "format": FORMAT,
            "kind": KIND,
            "noise": noise,
            "error": self.error,
            "bound": self.bound,
            "gap": self.gap if math.isfinite(self.gap) else None,
            "independent": self.independent,
            "largest_std": self.largest_std,
            "exact": self.exact,
            "targets": dict(self.targets),
            "guarantees": {name: stated.describe() for name, stated in self.guarantees.items()},
            "notes": list(self.notes),
            "settings": dict(self.settings),
            "unit_mu": self.unit_mu.tolist(),
            "covariance": self.keys().covariance.tolist(),
            "keys": self.keys().describe(),
        }

    def save(self, path: str | Path) -> Path:
        """Write everything to a file, which `sv.load` reads back."""
        where = Path(path)
        described = self.describe()
        write_json(where, {**described, "digest": _digest(described)})
        return where


def key_plan(noise: Noise, unit_mu: np.ndarray) -> KeyPlan:
    """The streams of a designed noise, with its std in the factors."""
    held = noise.parameters
    if "joint" in held:
        nothing = np.zeros((0, 2))
        joint = noise.std * np.array(held["joint"], dtype=float)
        return KeyPlan(
            own=np.zeros(len(joint)), pairs=nothing.astype(int), factors=nothing, joint=joint, unit_mu=unit_mu
        )
    pairs, factors = np.array(held["pairs"], dtype=int).reshape(-1, 2), np.array(held["factors"]).reshape(-1, 2)
    return KeyPlan(
        own=noise.std * np.array(held["own"]), pairs=pairs, factors=noise.std * factors, joint=None, unit_mu=unit_mu
    )


def load_design(path: str | Path) -> Design:
    """Read a design back, and check that its streams have the covariance that was written, and that nothing else was changed either.

    Guarantees speak of the noise beside them: sizes by round, memory and what is stated are no longer a design once one of them was edited. The
    digest finds edits, not forgers, who can write a new one; ask `sv.account` about a design of somebody you do not trust.

    Raises:
        ConfigError: no such file, another format, or numbers that contradict each other.
    """
    where = Path(path)
    try:
        held = json.loads(where.read_text(encoding="utf-8"))
        if held["kind"] != KIND or held["format"] != FORMAT:
            raise ConfigError(
                f"{where} is no design of format {FORMAT}. Write it with Design.save or `sottovoce design`."
            )
        made = _design(held)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{where} cannot be read as a design: {error}. Write it with Design.save.") from error
    found, written = made.keys().covariance, np.array(held["covariance"], dtype=float)
    if found.shape != written.shape or not (np.abs(found - written) <= SAME * np.abs(written).max()).all():
        raise ConfigError(
            f"the streams in {where} do not have the covariance that stands there too: the file was changed. Design it again."
        )
    written_digest = held.pop("digest", None)
    if written_digest != _digest(held):
        raise ConfigError(
            f"the numbers in {where} do not have the digest that stands there too: the file was changed after it was written. Design it again."
        )
    return made


def _digest(described: Mapping[str, Any]) -> str:
    """Of everything that a file says."""
    text = json.dumps(json.loads(json.dumps(described)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def noise_from(held: Mapping[str, Any]) -> Noise:
    """The scheme that a file describes."""
    parts = {name: held[name] for name in ("own", "pairs", "factors", "joint") if name in held}
    made = designed(Gaussian(std=held["std"]), **parts)
    if "factors_by_round" in held:
        made = made.scaled(held["factors_by_round"])
    return made if "memory" not in held else made._replace(memory=np.array(held["memory"], dtype=float))


def _design(held: Mapping[str, Any]) -> Design:
    return Design(
        noise=noise_from(held["noise"]),
        error=held["error"],
        bound=held["bound"],
        independent=held["independent"],
        guarantees={name: _guarantee(stated) for name, stated in held["guarantees"].items()},
        targets=held["targets"],
        largest_std=held["largest_std"],
        exact=held["exact"],
        notes=tuple(held["notes"]),
        settings=held["settings"],
        unit_mu=np.array(held["unit_mu"], dtype=float),
    )


def _guarantee(held: Mapping[str, Any]) -> Guarantee:
    """What was stated when the design was made."""
    kept = (
        "observer", "agent", "unit", "adjacency", "rounds", "participation", "validity", "reason", "source", "linear_mu", "linear_validity",
        "linear_gap", "linear_agent",
    )  # fmt: skip
    infinite = held["validity"] == "infinite"
    return Guarantee(
        tradeoff=GaussianTradeoff(math.inf if infinite else float(held["mu"])),
        assumptions=tuple(held["assumptions"]),
        **{name: held[name] for name in kept},
    )
