"""What a guarantee rests on beyond noise and sensitivity: local steps, draws of agents, walks and masks, in words."""

from sottovoce.accounting.proofs.walk_hops import contributions_of
from sottovoce.accounting.question.checked import Case


def premises(case: Case, *, amplified: bool) -> tuple[str, ...]:
    """The sentences that apply to a question; `amplified`: the value rests on a secret draw, or on the noise of other hops."""
    return (
        _of_presence(case)
        + _of_local_steps(case)
        + _of_sampling(case, amplified)
        + _of_walk(case, amplified)
        + _of_masks(case)
    )


def _of_presence(case: Case) -> tuple[str, ...]:
    if (case.unit, case.adjacency) != ("agent", "add-remove") or case.noise.needs_relay:
        return ()
    return (
        "without its data the agent takes part all the same, with nothing but its noise: that it takes part is not hidden",
    )


def _of_local_steps(case: Case) -> tuple[str, ...]:
    local = case.local
    if local is None:
        return ()
    return (
        f"the gradients of a round's {local.times} local steps together change by at most {local.growth:g} times what one changes",
    )


def _of_sampling(case: Case, amplified: bool) -> tuple[str, ...]:
    if case.sampling is None or case.masked:
        return ()
    known = "nobody but the relay knows who else" if amplified else "the observer may know who"
    return (f"agents take part by a draw that does not depend on data ({case.sampling}); {known} took part",)


def _of_walk(case: Case, amplified: bool) -> tuple[str, ...]:
    if not case.algorithm.walks:
        return ()
    added = f"the agent adds at most {contributions_of(case.algorithm, case.rounds)} gradients"
    if not amplified:
        return (f"{added}, and the way of the token, which the observer may know, does not depend on data",)
    drawn = "every hop is drawn afresh by the weights, whatever the data; the value holds over these draws, which the observer may learn"
    return (f"{added}; {drawn}",)


def _of_masks(case: Case) -> tuple[str, ...]:
    if not case.masked:
        return ()
    assert case.aggregation is not None
    n = len(case.sensitivity)
    least = case.aggregation.least_published(n) - case.observer.corrupted(n)
    return (
        f"every sum that is released holds at least {max(least, 1)} agents outside the observer; who is silent and who belongs to the "
        "observer does not depend on data, nor on the graph of masks, which is drawn after the agents are known",
        "masks are fresh in every round and secret to the pairs who share them, and those of a silent agent are revealed only if it has "
        "not published; delta includes the risk of a badly connected graph",
    )
