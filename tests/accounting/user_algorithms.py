"""Algorithms as a user would write them: plain functions of state, gradient and round, honest and otherwise.

Every factory returns an `Algorithm`. `step` is a number or a function of the round, as in the package's own algorithms.
"""

import functools
import inspect

from sottovoce.algorithms import Algorithm, ClippedUpdate, Exchange, LocalSteps
from sottovoce.algorithms.algorithm import schedules_of, step_at
from sottovoce.clipping import clip_vector

FAR_AWAY = 1e6  # where an agent looks for a second gradient


def _keep(w, gradient, t):
    return w


def scheduled(make):
    """Name the step of the algorithm that is made among its schedules, as its reader should."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*given, **named):
        step = signature.bind(*given, **named).arguments["step"]
        algorithm = make(*given, **named)
        return algorithm._replace(schedules=tuple(dict.fromkeys((*algorithm.schedules, *schedules_of(step)))))

    return made


def _take(w, received, gradient, t):
    return received


@scheduled
def adapt_then_combine(step):
    return Algorithm("own atc", (Exchange(lambda w, gradient, t: w - step_at(step, t) * gradient(w), _take),))


@scheduled
def combine_then_adapt(step):
    def update(w, received, gradient, t):
        return received - step_at(step, t) * gradient(received)

    return Algorithm("own cta", (Exchange(_keep, update),))


@scheduled
def beside(step):
    def update(w, received, gradient, t):
        return received - step_at(step, t) * gradient(w)

    return Algorithm("own consensus", (Exchange(_keep, update),))


@scheduled
def momentum(step, memory):
    """Two blocks of state; the velocity is made before the message and kept."""

    def begin(state, gradient, t):
        return {"model": state["model"], "velocity": memory * state["velocity"] + gradient(state["model"])}

    def message(state, gradient, t):
        return state["model"] - step_at(step, t) * state["velocity"]

    def update(state, received, gradient, t):
        return {"model": received, "velocity": state["velocity"]}

    return Algorithm(
        "own momentum",
        (Exchange(message, update),),
        begin=begin,
        init=lambda w: {"model": w, "velocity": 0 * w},
        model=lambda state: state["model"],
    )


@scheduled
def several_exchanges(step, times, weights=()):
    """A gradient step, then several averagings, each with the run's weights or with its own."""
    used = (*weights, *([None] * (times - len(weights))))
    first = Exchange(lambda w, gradient, t: w - step_at(step, t) * gradient(w), _take, used[0])
    return Algorithm("own averaging", (first, *(Exchange(_keep, _take, one) for one in used[1:])))


@scheduled
def repeated(step, times):
    """ATC that says everything several times, with new noise, and goes on from the last."""

    def message(w, gradient, t):
        return w - step_at(step, t) * gradient(w)

    told = [Exchange(message, lambda w, received, gradient, t: w) for _ in range(times - 1)]
    return Algorithm("own repetitions", (*told, Exchange(message, _take)))


@scheduled
def tracking(step):
    """Gradient tracking: models in one exchange, estimates of the average gradient in the other."""

    def move(state, received, gradient, t):
        return {**state, "model": received - step_at(step, t) * state["track"]}

    def follow(state, received, gradient, t):
        found = gradient(state["model"])
        return {"model": state["model"], "track": received + found - state["last"], "last": found}

    return Algorithm(
        "own tracking",
        (
            Exchange(lambda state, gradient, t: state["model"], move),
            Exchange(lambda state, gradient, t: state["track"], follow),
        ),
        init=lambda w: {"model": w, "track": 0 * w, "last": 0 * w},
        model=lambda state: state["model"],
    )


def general(mixed, at, sent, kept, shown):
    """Any linear round of two blocks x, v: the gradient at a mixture of them, a message per row of `sent`.

    Args:
        mixed: how much all numbers change from round to round: they are multiplied by 1 + mixed (t mod 3).
        at: [2] the point of the gradient.
        sent: [m, 4] coefficients of (x, v, gradient, received before) in every message.
        kept: [2, 5] coefficients of (x, v, gradient, received first, received last) in the new x and v.
        shown: [2] coefficients of (x, v) in the model.
    """

    def begin(state, gradient, t):
        return {**state, "gradient": (1 + mixed * (t % 3)) * gradient(at[0] * state["x"] + at[1] * state["v"])}

    def message(row):
        def send(state, gradient, t):
            named = (state["x"], state["v"], state["gradient"], state["before"])
            return sum(number * value for number, value in zip(row, named, strict=True))

        return send

    def receive(first):
        def update(state, received, gradient, t):
            return {**state, "first": received if first else state["first"], "before": received}

        return update

    def close(state, received, gradient, t):
        values = (state["x"], state["v"], state["gradient"], received if len(sent) == 1 else state["first"], received)
        x, v = (sum(number * value for number, value in zip(row, values, strict=True)) for row in kept)
        return {"x": x, "v": v, "gradient": 0 * x, "first": 0 * x, "before": 0 * x}

    last = len(sent) - 1
    exchanges = tuple(Exchange(message(row), close if j == last else receive(j == 0)) for j, row in enumerate(sent))
    return Algorithm(
        "own linear",
        exchanges,
        begin=begin,
        init=lambda w: {"x": w, "v": 0 * w, "gradient": 0 * w, "first": 0 * w, "before": 0 * w},
        model=lambda state: shown[0] * state["x"] + shown[1] * state["v"],
    )


@scheduled
def local(step, times, *, declared=None, really=None):
    """Several numbered gradients in one message. `declared` is another step that is told, `really` another number of them."""

    def message(w, gradient, t):
        stepped = w
        for number in range(times if really is None else really):
            stepped = stepped - step_at(step, t) * gradient(stepped, min(number, times - 1))
        return stepped

    told = step if declared is None else declared
    steps = LocalSteps(adapt_then_combine(told), times, told)
    return Algorithm("own local steps", (Exchange(message, _take),), local_steps=steps)


@scheduled
def clipped(step, clip, *, factor=1.0):
    """A whole update that is clipped, and then, where it is not as declared, stretched by a factor."""

    def message(w, gradient, t):
        return w + factor * clip_vector(-step_at(step, t) * gradient(w), clip)

    return Algorithm(
        "own clipping", (Exchange(message, _take),), clipped_update=ClippedUpdate(adapt_then_combine(1.0), clip)
    )


@scheduled
def boxed(step, radius):
    """ATC whose models are kept in a box."""
    linear = adapt_then_combine(step)

    def update(w, received, gradient, t):
        return received.clip(-radius, radius)

    return Algorithm("own box", (linear.exchanges[0]._replace(update=update),), linear_part=linear)


@scheduled
def walking(step, *, times=1, on_arrival=False, longer_in=None, contributions=None):
    """A token on a walk that tells its step; `times` steps in a message, one more on arrival, or ten in one round, are not told."""

    def message(w, gradient, t):
        longer = 1 if longer_in is None else 1 + 9 * (t == longer_in)
        return w - longer * times * step_at(step, t) * gradient(w)

    def update(w, received, gradient, t):
        return received - step_at(step, t) * gradient(received) if on_arrival else received

    return Algorithm(
        "own walk",
        (Exchange(message, update, silent=lambda w, t: w),),
        parameters={"step_size": step, "contributions": contributions},
        contributions=contributions,
        walks=True,
    )


@scheduled
def sampled(step, sampling, *, secret):
    """FedAvg of a sample of agents. What the relay takes of the others is the common model, or a secret of theirs."""
    if not secret:
        plain = Exchange(lambda w, gradient, t: w - step_at(step, t) * gradient(w), _take, silent=lambda w, t: w)
        return Algorithm("own sample", (plain,), sampling=sampling, needs_relay="a sample of agents")

    def begin(state, gradient, t):
        return {"model": state["model"], "last": gradient(state["model"])}

    def update(state, received, gradient, t):
        return {"model": received, "last": state["last"]}

    return Algorithm(
        "own sample",
        (
            Exchange(
                lambda state, gradient, t: state["model"] - step_at(step, t) * state["last"],
                update,
                silent=lambda state, t: state["last"],
            ),
        ),
        begin=begin,
        init=lambda w: {"model": w, "last": 0 * w},
        model=lambda state: state["model"],
        sampling=sampling,
        needs_relay="a sample of agents",
    )


@scheduled
def opening(step, times=1):
    """ATC, or several local steps, whose gradients count from the second round on, because a block of its state says so."""

    def message(state, gradient, t):
        stepped = state["model"]
        for number in range(times):
            stepped = stepped - step * state["open"] * gradient(stepped, number)
        return stepped

    def update(state, received, gradient, t):
        return {"model": received, "open": 0 * received + 1}

    return Algorithm(
        "own opening",
        (Exchange(message, update),),
        init=lambda w: {"model": w, "open": 0 * w},
        model=lambda state: state["model"],
        local_steps=LocalSteps(adapt_then_combine(step), times, step) if times > 1 else None,
    )


@scheduled
def now_and_then(step, when, otherwise):
    """ATC whose gradient becomes otherwise(gradient) in the rounds of `when`."""

    def message(w, gradient, t):
        found = gradient(w)
        xp = found.__array_namespace__()
        return w - step_at(step, t) * xp.where(when(t), otherwise(found), found)

    return Algorithm("own exceptions", (Exchange(message, _take),))


@scheduled
def stretched_beyond(step, size, factor):
    """ATC that stretches large gradients and calls the rest, which it agrees with for tiny numbers, its linear part."""
    linear = adapt_then_combine(step)

    def message(w, gradient, t):
        found = gradient(w)
        xp = found.__array_namespace__()
        return w - step_at(step, t) * xp.where(abs(found) > size, factor * found, found)

    return Algorithm("own stretching", (linear.exchanges[0]._replace(message=message),), linear_part=linear)


@scheduled
def two_points(step, since, *, walks=False):
    """ATC, or a token, that from some round on subtracts a gradient taken far away under the same number."""

    def message(w, gradient, t):
        if not hasattr(t, "dtype") and t < since:  # outside of a compiled program later rounds look like any other
            return w - step * gradient(w)
        xp = w.__array_namespace__()
        return w - step * (gradient(w) - xp.where(t >= since, gradient(w + FAR_AWAY), 0.0 * w))

    exchange = Exchange(message, _take, silent=lambda w, t: w)
    return Algorithm("own difference", (exchange,), parameters={"step_size": step}, walks=walks)
