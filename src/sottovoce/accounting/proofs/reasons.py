"""Why a guarantee holds, or why there is none, in words."""

from sottovoce.accounting.question.participation import Participation, Poisson, describe_participation
from sottovoce.clipping import Clip
from sottovoce.noise import Noise
from sottovoce.observers import View
from sottovoce.problems import ConvexSmooth

PAGE = "docs/guarantees.md"
SOURCES = {
    "exact": f"{PAGE}, section 'Readers of every message'",
    "sent-messages": f"{PAGE}, section 'Sent messages'",
    "absorption": f"{PAGE}, section 'Absorption'",
    "amplified-by-iteration": f"{PAGE}, section 'Final model'",
    "infinite": f"{PAGE}, section 'When nothing is hidden'",
    "fixed-values": f"{PAGE}, section 'The linear view'",
    "walk": f"{PAGE}, section 'Walks'",
    "masks": f"{PAGE}, section 'Masked averages'",
}


def why_finite(
    validity: str,
    *,
    agent: int,
    observer: str,
    averages: bool = False,
    gradients: bool = False,
    fixed_values: bool = False,
    walk: bool = False,
    masks: bool = False,
) -> str:
    """The proof in a sentence.

    The flags say of what: `averages` that a relay sends out, noise in `gradients`, `fixed_values` as in gossip, a `walk`, or averages
    with `masks`.
    """
    if masks:
        return f"What {observer} reads of agent {agent} is hidden by masks and by the noise of the agents outside it, as far as they are connected."
    if validity == "sent-messages" and (averages or gradients):
        what = f"the noisy gradients agent {agent} takes" if gradients else "the averages that the relay sends out"
        return f"Whatever {observer} sees follows from {what} and from what does not depend on agent {agent}'s data."
    if validity == "exact" and fixed_values:
        return f"Values do not react to what agents hear, so {observer} sees a fixed linear map of them and of the noise, at exactly this distance."
    if validity == "amplified-by-iteration" and walk:
        return (
            f"Before the token comes to {observer}, what agent {agent} added is hidden by the noise of other hops too."
        )
    match validity:
        case "exact":
            return f"Given what {observer} has read, agent {agent}'s next contribution is hidden by fresh noise alone."
        case "sent-messages":
            return f"Whatever {observer} sees follows from the messages agent {agent} sends and from what does not depend on its data."
        case "absorption":
            return f"On its way to {observer} a change in agent {agent}'s data is absorbed by noise that {observer} does not know."
        case _:
            return "Every step brings two runs closer together, so early differences fade before the model is released."


def why_clear(noise: Noise, view: View, *, agent: int, clear_round: int, final_models: str, linear_clear: bool) -> str:
    """Why nothing is promised."""
    if noise.law is None:
        return "No noise is added: messages are in clear."
    if noise.needs_relay and view.every_message:
        return "The relay adds the noise after it has received the messages, so whoever reads these reads them in clear: it must be trusted."
    if view.final_model and final_models == "gradient":
        return "The last gradient is added after the last exchange, so the final model carries it without noise of its own."
    if view.final_model and final_models == "state":
        return "The final model holds a state of before the last exchange, which carries something that was not sent with noise."
    if "receivers" in noise.promises:
        return _at_receivers(view, agent, clear_round, linear_clear)
    if view.final_model and "centroid" in noise.promises:
        return (
            "The noise cancels in the centroid, so the final model is free of it: that is the purpose of this scheme."
        )
    if view.final_model and not linear_clear:
        return (
            "No guarantee is proved for the final model: own copies lack the noise that was sent, so the final model is no function of "
            "the messages. Promise losses=ConvexSmooth(beta), or use self-noise."
        )
    if clear_round:
        return f"In round {clear_round} something of agent {agent} can be read without noise: messages and own copies differ, or carry none."
    return "Something can be read without noise."


def unsupported(unit: str, noise: Noise, algorithm: str, *, promised: bool, random_links: bool) -> str:
    """What to do when nothing is proved."""
    what = f"a guarantee for one record under '{algorithm}' with '{noise.name}' noise"
    if unit == "agent":
        what = f"a guarantee for an agent whose gradients are bounded at the same model only, under '{algorithm}' with '{noise.name}' noise,"
    why = "needs a promise: the two worlds take gradients at different points, so that other records' gradients change too"
    if random_links:
        why += "; links that come and go add to it, since a silent agent adds no noise, whatever the scheme"
    if unit == "agent":
        return f"{what} {why}. Promise losses=sv.accounting.ConvexSmooth(beta), or bound the difference of any two gradients (no ridge: ridge = 0)."
    if promised:
        return (
            f"{what} {why}, and the promise given does not help: it is about the l2 norm, or does not cover this algorithm. Use the law "
            f"L2Laplace or Gaussian, ATC or CTA with self-noise, or unit='agent' with a bound between any two gradients (2C)."
        )
    return (
        f"{what} {why}. Promise losses=sv.accounting.ConvexSmooth(beta) if every local loss is convex and beta-smooth, use ATC or CTA with "
        f"sv.noise.independent(law, self_noise=True), or take unit='agent' with a bound between any two gradients (2C)."
    )


def assumptions(
    noise: Noise,
    unit: str,
    *,
    sensitivity: float,
    losses: ConvexSmooth | None,
    random_links: bool,
    pairs: bool,
    same_model: bool,
    clip: Clip | None,
    computed: bool,
    participation: Participation,
    follow: bool,
) -> tuple[str, ...]:
    """What a finite guarantee rests on."""
    norm = "l2" if noise.law is None else noise.law.norm
    where = "at the same model" if same_model else "between any two models"
    change = "one record" if unit == "record" else "its data"
    source = "computed from the problem's clipping" if computed else "as claimed"
    made = [f"a change of {change} moves one gradient by at most {sensitivity:g} in {norm}, {where} ({source})"]
    if clip is not None:
        made = [
            f"every update is clipped as a whole to {clip.bound:g} in {clip.norm}, so that a change of {change} moves it by at most {sensitivity:g}"
        ]
    owner = "the relay, which is trusted and reads every message" if noise.needs_relay else "its owner"
    often = "gradient" if noise.in_gradients else "round"
    made.append(f"noise is fresh in every {often} and secret to " + ("the pairs who share it" if pairs else owner))
    if isinstance(participation, Poisson):
        made.append("the other agents' data are the same in both worlds; the observer may know them")
        made.append(
            "records enter batches by independent coin flips that nobody else knows, and gradients are divided by a fixed number"
        )
        if participation.record_norm is not None:
            made.append(f"one record's part of a gradient has norm at most {participation.record_norm:g}")
    else:
        made.append(
            "the other agents' data are the same in both worlds; the observer may know them and all sampling of batches"
        )
    if participation != "every-round" and not isinstance(participation, Poisson):
        when = describe_participation(participation)
        made.append(f"the record takes part in {when}, fixed before the run; the worst placement counts")
    if pairs or follow:
        made.append("agents outside the observer follow the protocol")
    if losses is not None:
        made.append(
            f"every local loss, full or batch, is convex, {losses.beta:g}-smooth and {losses.nu:g}-strongly convex (promised, not checked)"
        )
    if random_links:
        made.append("which links are active does not depend on data; it holds for every pattern of active links")
    return tuple(made)


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
