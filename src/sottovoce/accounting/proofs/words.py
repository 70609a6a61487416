"""Why there is no guarantee, and what one rests on, in words."""

from sottovoce.accounting.proofs.evidence import Evidence
from sottovoce.accounting.proofs.message_differences import final_models_hold
from sottovoce.accounting.proofs.proof import Statement
from sottovoce.accounting.question.asked import Asked
from sottovoce.accounting.question.participation import Poisson, describe_participation
from sottovoce.observers import View
from sottovoce.problems import unit_in_words

GENERATOR_TRUSTED = (
    "a trusted generator draws noise for all agents, tells every agent the sum that it adds itself and nothing else, and takes no part in the observer: "
    "from the generator nothing is hidden"
)


def why_clear(evidence: Evidence, agent: int) -> str:
    """Why nothing is promised."""
    noise, view = evidence.asked.noise, evidence.asked.view
    if noise.law is None:
        return "No noise is added: messages are in clear."
    if noise.needs_relay and view.every_message:
        return "The relay adds the noise after it has received the messages, so whoever reads these reads them in clear: it must be trusted."
    held = "combination" if evidence.rounds is None else final_models_hold(evidence.rounds)
    if view.final_model and held == "gradient":
        return "The last gradient is added after the last exchange, so the final model carries it without noise of its own."
    if view.final_model and held == "state":
        return "The final model holds a state of before the last exchange, which carries something that was not sent with noise."
    if view.final_model and "centroid" in noise.promises and "receivers" not in noise.promises:
        return (
            "The noise cancels in the centroid, so the final model is free of it: that is the purpose of this scheme."
        )
    return _why_clear_in_messages(evidence, agent)


def _why_clear_in_messages(evidence: Evidence, agent: int) -> str:
    noise, view, linear = evidence.asked.noise, evidence.asked.view, evidence.linear_value(agent)
    shown = linear is not None and linear.clear_round > 0
    clear_round = (linear.clear_round if linear is not None else 0) or int(evidence.sent.clear_round[agent])
    if "receivers" in noise.promises:
        return _at_receivers(view, agent, clear_round, shown)
    if view.final_model and not shown:
        return (
            "No guarantee is proved for the final model: own copies lack the noise that was sent, so the final model is no function of "
            "the messages. Promise losses=ConvexSmooth(beta), or use self-noise."
        )
    if clear_round:
        return f"In round {clear_round} something of agent {agent} can be read without noise: messages and own copies differ, or carry none."
    return "Something can be read without noise."


def _at_receivers(view: View, agent: int, clear_round: int, linear_clear: bool) -> str:
    base = "The masks of neighbours cancel where they are combined"
    if linear_clear and view.members.any():
        return (
            f"{base}: a member of the observer receives every masked message of its neighbours, adds them up, and has agent {agent}'s "
            f"contribution without noise from round {clear_round} on."
        )
    if linear_clear:
        return f"{base}: whoever reads all messages into one receiver adds them up and has agent {agent}'s contribution without noise."
    return (
        f"{base}, so all models are free of noise, and other agents' gradients may carry agent {agent}'s data in clear. Nothing is proved for "
        f"a part of the links; add independent noise."
    )


def unsupported(evidence: Evidence) -> str:
    """What to do when nothing is proved."""
    asked = evidence.asked
    of_agent = asked.unit == "agent"
    what = f"a guarantee for {_protected(asked)} under '{asked.algorithm.name}' with '{asked.noise.name}' noise"
    if of_agent:
        what = f"a guarantee for an agent whose gradients are bounded at the same model only, under '{asked.algorithm.name}' with '{asked.noise.name}' noise,"
    why = "needs a promise: the two worlds take gradients at different points, so that other records' gradients change too"
    if evidence.random_links:
        why += "; links that come and go add to it, since a silent agent adds no noise, whatever the scheme"
    if of_agent:
        return f"{what} {why}. Promise losses=sv.accounting.ConvexSmooth(beta), or bound the difference of any two gradients (no ridge: ridge = 0)."
    if asked.losses is not None:
        return (
            f"{what} {why}, and the promise given does not help: it is about the l2 norm, or does not cover this algorithm. Use the law "
            f"L2Laplace or Gaussian, ATC or CTA with self-noise, or unit='agent' with a bound between any two gradients (2C)."
        )
    return (
        f"{what} {why}. Promise losses=sv.accounting.ConvexSmooth(beta) if every local loss is convex and beta-smooth, use ATC or CTA with "
        f"sv.noise.independent(law, self_noise=True), or take unit='agent' with a bound between any two gradients (2C)."
    )


def assumptions(evidence: Evidence, agent: int, stated: Statement) -> tuple[str, ...]:
    """What a finite guarantee rests on."""
    asked = evidence.asked
    made = [_of_sensitivity(asked, agent), _of_noise(evidence), *_of_participation(asked)]
    if evidence.generated:
        made.append(GENERATOR_TRUSTED)
    if evidence.sent.pairs or evidence.generated or stated.others:
        made.append("agents outside the observer follow the protocol")
    losses = asked.losses if asked.local is None else asked.local.losses
    if stated.promised and losses is not None:
        made.append(
            f"every local loss, full or batch, is convex, {losses.beta:g}-smooth and {losses.nu:g}-strongly convex (promised, not checked)"
        )
    if evidence.random_links:
        made.append("which links are active does not depend on data; it holds for every pattern of active links")
    return (*made, *_of_persons(asked), *_of_presence(asked), *_of_local_steps(asked), *stated.premises)


def known_draw(asked: Asked) -> tuple[str, ...]:
    """The sentence about a draw of agents that the observer may know."""
    if asked.sampling is None:
        return ()
    return (
        f"agents take part by a draw that does not depend on data ({asked.sampling}); the observer may know who took part",
    )


def _protected(asked: Asked) -> str:
    persons = asked.question.persons
    return unit_in_words(asked.unit, None if persons is None else persons.records)


def _of_sensitivity(asked: Asked, agent: int) -> str:
    sensitivity = float(asked.sensitivity[agent])
    change = "its data" if asked.unit == "agent" else _protected(asked)
    if asked.clip is not None:
        return (
            f"every update is clipped as a whole to {asked.clip.bound:g} in {asked.clip.norm}, so that a change of {change} moves it by at most "
            f"{sensitivity:g}"
        )
    norm = "l2" if asked.noise.law is None else asked.noise.law.norm
    where = "at the same model" if asked.same_model else "between any two models"
    source = "computed from the problem's clipping" if asked.question.computed else "as claimed"
    return f"a change of {change} moves one gradient by at most {sensitivity:g} in {norm}, {where} ({source})"


def _of_noise(evidence: Evidence) -> str:
    noise = evidence.asked.noise
    owner = "the relay, which is trusted and reads every message" if noise.needs_relay else "its owner"
    often = "gradient" if noise.in_gradients else "round"
    fresh = f"noise is fresh in every {often}"
    if noise.memory is not None:
        fresh = "noise is drawn freshly in every round, enters again in later rounds with factors that all may know,"
    if evidence.generated:
        return f"{fresh} and every agent keeps to itself what it was told of it and what it draws"
    return f"{fresh} and secret to " + ("the agents who share it" if evidence.sent.pairs else owner)


def _of_participation(asked: Asked) -> list[str]:
    participation = asked.participation
    same = "the other agents' data are the same in both worlds; the observer may know them"
    if not isinstance(participation, Poisson):
        made = [f"{same} and all sampling of batches"]
        if participation != "every-round":
            when = describe_participation(participation)
            made.append(f"the record takes part in {when}, fixed before the run; the worst placement counts")
        return made
    made = [
        same,
        "records enter batches by independent coin flips that nobody else knows, and gradients are divided by a fixed number",
    ]
    if participation.record_norm is not None:
        made.append(f"one record's part of a gradient has norm at most {participation.record_norm:g}")
    return made


def _of_persons(asked: Asked) -> tuple[str, ...]:
    """What a person's sensitivity rests on; the numbers of records are public, unless they are what differs."""
    if asked.unit != "person":
        return ()
    persons = asked.question.persons
    most = "" if persons is None else f" and at most {persons.records} of them"
    how = "checked on the records at hand" if persons is not None and persons.checked else "promised, not checked"
    made = f"all records of one person are at one agent{most} ({how})"
    if asked.adjacency == "replace":
        return (
            made,
            "two data sets differ in the values of all records of one person: how many records each person has, and at which agent, is public",
        )
    return made, "the records of one person are there or not, and the size of the noise is the same either way"


def _of_presence(asked: Asked) -> tuple[str, ...]:
    if (asked.unit, asked.adjacency) != ("agent", "add-remove") or asked.noise.needs_relay:
        return ()
    return (
        "without its data the agent takes part all the same, with nothing but its noise: that it takes part is not hidden",
    )


def _of_local_steps(asked: Asked) -> tuple[str, ...]:
    local = asked.local
    if local is None:
        return ()
    return (
        f"the gradients of a round's {local.times} local steps together change by at most {local.growth:g} times what one changes",
    )
