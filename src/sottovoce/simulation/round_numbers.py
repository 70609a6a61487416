"""That a compiled round does what the accountant reads, where an agent's functions compute with the number of the round.

Inside a program the round is a 32-bit integer; on the host it is a Python integer of any size. `round_ ** 4` is the same in both up to round
215, and something else after. Algorithms that look their numbers up in schedules never meet this. Those whose functions use the number itself
play every round twice before a run begins, compiled and on the host, on the same vectors, and must come out the same.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.algorithms import Algorithm
from sottovoce.errors import IncompatibleChoice, SottovoceError
from sottovoce.linear import check_shapes, num_variables, play_round, refill, state_blocks
from sottovoce.schedules import RoundNumberUsed, UnnumberedRound, running_round

NUMBERS_TOGETHER = 2**20  # parameters times rounds that are played in one go


def check_round_numbers(algorithm: Algorithm, rounds: int, dtype: str, *, dimension: int) -> None:
    """Refuse an algorithm whose compiled rounds differ from those on the host.

    Args:
        algorithm: what runs.
        rounds: how many.
        dtype: of the run.
        dimension: d, the parameters of its model.

    Raises:
        IncompatibleChoice: naming the first round that differs, or functions that cannot be compiled because they decide by the round.
    """
    every = np.random.default_rng(4).standard_normal((num_variables(algorithm), dimension))
    check_shapes(algorithm, 1, every[0])
    if _number_unused(algorithm, every):
        return
    # All variables together, and each alone: what a small step does is hidden behind the model.
    trials = [every, *(np.eye(len(every))[:, [i]] * every for i in range(len(every)))]
    tables = [schedule.table(rounds) for schedule in algorithm.schedules]
    program = jax.jit(
        jax.vmap(
            lambda t, values, held: jax.vmap(lambda one: _compiled(algorithm, t, values, one))(held),
            in_axes=(0, 0, None),
        )
    )
    held = np.stack(trials).astype(dtype)
    together = max(1, min(rounds, NUMBERS_TOGETHER // held.size))
    for first in range(0, rounds, together):
        numbers = np.arange(first + 1, min(first + together, rounds) + 1)
        values = [np.asarray(table[numbers - 1], dtype) for table in tables]
        with jax.enable_x64(dtype == "float64"):
            found = _results(algorithm, program, numbers, values, held)  # [rounds, trials, rows, d]
        for t, compiled in zip(numbers.tolist(), found, strict=True):
            _refuse_unless_same(algorithm, t, compiled, trials, float(np.finfo(dtype).eps) ** 0.5)


def _results(
    algorithm: Algorithm, program: Any, numbers: np.ndarray, values: list[np.ndarray], held: np.ndarray
) -> np.ndarray:
    try:
        return np.asarray(program(numbers.astype(np.int32), values, held), dtype=float)
    except jax.errors.ConcretizationTypeError as error:
        raise IncompatibleChoice(
            f"'{algorithm.name}' decides by the number of the round in Python, which a compiled program cannot. Put what changes "
            f"into a schedule, sottovoce.schedules.schedule_of(lambda t: ...), and name it in Algorithm(..., schedules=(...,))."
        ) from error


def _refuse_unless_same(
    algorithm: Algorithm, round_: int, compiled: np.ndarray, trials: list[np.ndarray], tolerance: float
) -> None:
    for found, one in zip(compiled, trials, strict=True):
        host = np.concatenate(_on_host(algorithm, round_, one))
        # Every row by its own size, so that no large one hides a small one.
        if not (np.abs(found - host).max(axis=1) <= tolerance * np.abs(host).max(axis=1)).all():
            raise IncompatibleChoice(
                f"'{algorithm.name}' computes with the number of the round, and in round {round_} its compiled form, whose round is a 32-bit "
                f"integer, does something else than its functions on the host, which the accountant reads. Put what changes into a "
                f"schedule, sottovoce.schedules.schedule_of(lambda t: ...), and name it in Algorithm(..., schedules=(...,))."
            )


def _on_host(algorithm: Algorithm, round_: Any, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return play_round(algorithm, round_, *_split(algorithm, vectors), _gradient(vectors[-1]), opaque=False)


def _number_unused(algorithm: Algorithm, vectors: np.ndarray) -> bool:
    """Whether a round runs without knowing its number."""
    hidden = UnnumberedRound(1, algorithm.schedules)
    try:
        found = _on_host(algorithm, hidden, vectors)
    except SottovoceError:
        raise
    except (Exception, RoundNumberUsed):  # whatever else is wrong shows when the round is compiled
        return False
    numbered = _on_host(algorithm, 1, vectors)
    return not hidden.asked and all(np.array_equal(a, b) for a, b in zip(found, numbered, strict=True))


def _compiled(algorithm: Algorithm, round_: Any, values: list[Any], vectors: Any) -> Any:
    """[m + b, d] what an agent sends and keeps."""
    blocks, received = _split(algorithm, vectors)
    gradient = _gradient(vectors[-1])
    with running_round(dict(zip(algorithm.schedules, values, strict=True))):
        state = algorithm.begun(refill(algorithm.init(jnp.zeros(1, vectors.dtype)), list(blocks)), gradient, round_)
        sent = []
        for exchange, arrived in zip(algorithm.exchanges, received, strict=True):
            sent.append(exchange.message(state, gradient, round_))
            state = exchange.update(state, arrived, gradient, round_)
    return jnp.stack([jnp.asarray(part, vectors.dtype) for part in (*sent, *state_blocks(state))])


def _split(algorithm: Algorithm, vectors: Any) -> tuple[Any, Any]:
    exchanges = len(algorithm.exchanges)
    return vectors[: -1 - exchanges], vectors[-1 - exchanges : -1]


def _gradient(slope: Any) -> Any:
    return lambda w, step=0: (1.0 + step) * slope
