"""What a design is refused for, because nothing is proved about it."""

from typing import Any

from sottovoce.accounting import Cyclic, Poisson, Question
from sottovoce.algorithms import Algorithm
from sottovoce.errors import IncompatibleChoice, UnsupportedClaim
from sottovoce.linear import Step, diffusion_step, linear_rounds
from sottovoce.topologies import Listed, Static, Topology


def refuse_unproven(topology: Topology, algorithm: Algorithm, question: Question, *, time: str, keys: str) -> None:
    """Refuse runs for which the guarantee of correlated noise is not proved.

    Raises:
        IncompatibleChoice: choices that do not go together.
        UnsupportedClaim: no proof covers them.
    """
    _refuse_network(topology)
    steps = _steps(algorithm, question.rounds)
    kinds = {step.kind for step in steps}
    if question.unit != "agent" and "consensus" in kinds:
        raise UnsupportedClaim(
            "consensus takes gradients at a model that no message shows, so that of a record nothing is proved without a promise about the "
            "losses. Use atc, or unit='agent'."
        )
    if isinstance(question.participation, Poisson):
        raise UnsupportedClaim(
            "noise is designed for records whose rounds are fixed, not for batches by secret coins. Use participation='every-round' or cyclic."
        )
    _refuse_time(topology, kinds, question, time=time, keys=keys)
    _refuse_schedule(topology, steps, question, time=time)


def _refuse_network(topology: Topology) -> None:
    if topology.relay:
        raise IncompatibleChoice(
            f"'{topology.name}' has a relay, which hears sums and not messages, and noise is designed for peers. Use a peer graph, such as "
            f"sv.topologies.star(n)."
        )
    if not isinstance(topology.schedule, Static | Listed):
        raise UnsupportedClaim(
            f"links of '{topology.name}' are drawn at random, and correlated noise is proved for fixed and listed links. Use the topology "
            f"without the draw."
        )


def _steps(algorithm: Algorithm, rounds: int) -> list[Step]:
    """The steps of the algorithm's rounds that differ."""
    several = {
        "walks": algorithm.walks,
        "samples agents": algorithm.sampling is not None,
        "hides messages behind masks": algorithm.aggregation is not None,
        "takes several local steps": algorithm.local_steps is not None,
        "clips updates": algorithm.clipped_update is not None,
        "projects its models": algorithm.linear_part is not None,
    }
    steps: list[Any] = []
    if not any(several.values()):
        steps = [diffusion_step(form) for form in linear_rounds(algorithm, rounds).forms]
    if not steps or any(step is None for step in steps):
        what = ", ".join(name for name, found in several.items() if found) or "is of another form"
        raise UnsupportedClaim(
            f"'{algorithm.name}' {what}; noise is designed for one gradient and one message in a round. Use atc, cta or consensus."
        )
    return steps


def _refuse_time(topology: Topology, kinds: set[str], question: Question, *, time: str, keys: str) -> None:
    if time == "network":
        raise UnsupportedClaim(
            "time='network', noise correlated across agents and rounds at once, is not offered. Use 'white', 'schedule' or 'own'."
        )
    if time != "own":
        return
    if keys != "own":
        raise IncompatibleChoice(
            "time='own' lets every agent's own noise remember its last rounds. Use it with keys='own'."
        )
    if question.unit == "agent" or not (question.participation == "once" or isinstance(question.participation, Cyclic)):
        raise UnsupportedClaim(
            "time='own' gains only for records that are seen once or in turns: a unit that takes part in every round gains nothing from noise that "
            "remembers (docs/guarantees.md). Use unit='record' with participation='once' or sv.accounting.cyclic(times, gap), or time='schedule'."
        )
    if kinds != {"atc"} or not isinstance(topology.schedule, Static):
        raise UnsupportedClaim("time='own' is proved for atc on fixed links. Use them, or time='white'.")


def _refuse_schedule(topology: Topology, steps: list[Step], question: Question, *, time: str) -> None:
    if time != "schedule":
        return
    if question.participation != "every-round":
        raise UnsupportedClaim(
            "time='schedule' is proved for a unit that takes part in every round. Use participation='every-round'."
        )
    if len(steps) > 1 or steps[0].kind != "atc" or not isinstance(topology.schedule, Static):
        raise UnsupportedClaim(
            "time='schedule' and its bound weigh rounds that all cost the same. Under cta and consensus the first message holds no gradient, steps that "
            "change give rounds different prices, and so may listed links. Use atc with a constant step_size on fixed links, or time='white'."
        )
