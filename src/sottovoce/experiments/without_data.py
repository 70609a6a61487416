"""The public parts of a run: everything that all parties of a run know, made from a file without reading any data.

A simulation knows the records of all agents, a party its own. What both have in common must not depend on records, so it is made here from what the
file says alone: columns that are declared give the number of parameters, agreed numbers of records the sensitivities, and with them the size of
noise that is given by an epsilon. It is made by the same functions as a simulation, from records that are blank: as many agents, the same columns,
and nothing in them. With a table [deployment], the epsilon is that of whoever the parties protect themselves against, rounding included.

What a file leaves to the data is refused: undeclared columns or labels, and a promise about losses that would be computed from features. Data that
come with the package are no secret, so that a rehearsal may use them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sottovoce.deployment.agent import check_deployable
from sottovoce.deployment.terms import Agreement, Network, PublicRun, topology_of
from sottovoce.errors import ConfigError, IncompatibleChoice, UnsupportedClaim
from sottovoce.experiments.build import assembled, problem_of
from sottovoce.experiments.config.config import Config, records_enter
from sottovoce.experiments.config.deployment import DeploymentSection
from sottovoce.experiments.config.noise import LawSection
from sottovoce.experiments.config.privacy import PrivacySection
from sottovoce.experiments.config.topology import RandomTopology
from sottovoce.experiments.data import AgentData, blank_records, records_of_agents
from sottovoce.experiments.experiment import Experiment, refuse_turns
from sottovoce.experiments.protection import Privacy
from sottovoce.experiments.whole_numbers import Watchers, calibrated_for, public_run
from sottovoce.problems import Preparation, Problem, Schema, agent_names
from sottovoce.reprs import short_repr
from sottovoce.topologies import Topology
from sottovoce.wording import brief

_LAST_DIGITS = 1e-12  # by which weights of two machines may differ
_ALL_RECORDS = "A party learns from all records of its file: {keys} of [problem] {verb} for simulations."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicParts:
    """What all parties know.

    Attributes:
        run: topology, algorithm, noise, rounds and initial model.
        experiment: the same as a simulation has it, with the problem of blank records.
        privacy: what is protected, and under which promises.
        schema: what the columns of the data mean; None where data of the package are used.
        preparation: of plain numbers before a model takes them; None where columns are declared.
        names: of the agents, in the order of their numbers; None where nobody has said them.
        records: [K] the numbers of records that were agreed on; empty where they do not enter.
        notes: what of the file does not apply to parties, in sentences.
    """

    run: PublicRun
    experiment: Experiment
    privacy: Privacy
    schema: Schema | None
    preparation: Preparation | None
    names: tuple[str, ...] | None
    records: tuple[int, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def problem(self) -> Problem:
        """The problem, without anybody's records: what is known of it is its kind, its shape and its clipping."""
        return self.experiment.problem


def public_parts(config: Config, *, names: Sequence[str] | None = None, agreed: Agreement | None = None) -> PublicParts:
    """Make what all parties know, without reading any party's data.

    Args:
        config: what the file says.
        names: of the agents, in the order of their numbers, as a roster lists them; None: the file must say how many there are.
        agreed: an agreement that another party made; its network is taken where the file draws one, and must be the file's where it does not.

    Raises:
        ConfigError: something cannot be known without data, or one part cannot be made from its values.
        IncompatibleChoice: the parts are valid but not together, or not for parties.
        UnsupportedClaim: a promise that would be computed from data, or that no party keeps.
    """
    _refuse_what_parties_cannot(config)
    refuse_turns(config.algorithm.turns, "a run among parties")
    named = _names(config, names)
    counts = _counts(config, named)
    open_size = _with_open_size(config)
    if config.problem.is_public:
        data = records_of_agents(config.problem, config.topology.num_agents, config.experiment.seed)
        sizes, problem = [len(part) for part in data.records[0]], problem_of(config, data)
        counts = tuple(sizes) if records_enter(config) else ()
        _refuse_other_number(named, len(sizes))
    else:
        data, sizes = _without_records(config, _agents(config, named, counts), counts)
        problem = problem_of(config, data, sizes=sizes, whole=False)
    topology = None if agreed is None else _agreed_network(config, agreed.learning.networks[0], sizes)
    experiment = assembled(open_size, data, problem, sizes=sizes, topology=topology)
    if experiment.algorithm.aggregation is None:  # masked sums are carried out by other processes
        trusted = config.deployment is not None and config.deployment.relay == "trusted"
        check_deployable(public_run(experiment), relay_trusted=trusted)
    if open_size is not config:
        experiment = _calibrated(config, experiment)
    assert experiment.privacy is not None  # refused above
    return PublicParts(
        run=public_run(experiment),
        experiment=experiment,
        privacy=experiment.privacy,
        schema=experiment.schema,
        preparation=experiment.preparation,
        names=named,
        records=counts,
        notes=_notes(config),
    )


def watchers(section: DeploymentSection) -> Watchers:
    """Whom the parties of a file protect themselves against."""
    return Watchers(
        collude=section.collude,
        relay_trusted=section.relay == "trusted",
        released_to=section.releases,  # type: ignore[arg-type]
    )


def _with_open_size(config: Config) -> Config:
    """The file with noise of size one where the parties' epsilon sets it; the file itself where it does not."""
    noise = config.noise
    if not isinstance(noise, LawSection) or noise.epsilon is None or config.deployment is None:
        return config
    if config.algorithm.arguments().get("aggregation") == "gopa":  # accounted as masked sums are
        return config
    return config.model_copy(update={"noise": noise.model_copy(update={"epsilon": None, noise.size_key: 1.0})})


def _calibrated(config: Config, experiment: Experiment) -> Experiment:
    assert config.deployment is not None  # only with it a size was left open
    assert isinstance(config.noise, LawSection)
    section = config.deployment
    return calibrated_for(experiment, config.noise, watchers(section), fraction_bits=section.fraction_bits)[0]


def _without_records(config: Config, agents: int, counts: Sequence[int]) -> tuple[AgentData, list[int]]:
    """Blank records of so many agents, and the numbers of records to be taken in their place."""
    features = None if config.deployment is None else config.deployment.features
    # Where numbers of records do not enter, any that fill a batch give the same: a party with fewer is refused when it reads its file.
    sizes = list(counts) or [config.algorithm.batch_size or 1] * agents
    return blank_records(config.problem, agents, features=features), sizes


def _agreed_network(config: Config, network: Network, sizes: Sequence[int]) -> Topology:
    """The network of an agreement: any of these agents where the file draws one, else the file's own, but for last digits."""
    section, taken = config.topology, topology_of(network)
    if taken.num_agents != len(sizes):
        raise ConfigError(
            f"the agreement has {taken.num_agents} agents, and the file {len(sizes)}. Ask whoever made it for its file."
        )
    drops = 0.0 if section.dropout is None else section.dropout
    same = (network.dropout, network.schedule == "random_pair", network.relay) == (
        drops,
        section.random_pair,
        section.kind == "federation",
    )
    if same and not isinstance(section, RandomTopology):
        difference = abs(taken.weights - section.topology(seed=config.experiment.seed, sizes=sizes).weights)
        same = difference.nnz == 0 or difference.max() <= _LAST_DIGITS
    if not same:
        raise ConfigError(
            f'the agreement has another network than [topology] kind = "{section.kind}" of the file. Ask whoever made it for the file that it was made from.'
        )
    return taken


def _refuse_what_parties_cannot(config: Config) -> None:
    if config.privacy is None:
        raise ConfigError(
            "[privacy]: this section is missing. Parties must say what is protected, and how gradients are clipped: add unit, clip and clip_norm."
        )
    _refuse_promises(config.privacy)
    if config.privacy.adjacency != "replace":
        raise UnsupportedClaim(
            f'[privacy] adjacency = "{config.privacy.adjacency}": with one record more or less the sums of a computer round otherwise, for which nothing is '
            f'proved. Use "replace".'
        )
    if isinstance(config.noise, LawSection) and config.noise.law == "l2_laplace":
        raise IncompatibleChoice(
            '[noise] law = "l2_laplace": parties add whole numbers, and this law has no form in whole numbers whose guarantee is known. Use '
            '"gaussian" or "laplace".'
        )
    if config.topology.walk or config.algorithm.kind == "random_walk":
        raise IncompatibleChoice(
            "a token walks from agent to agent; its guarantees rest on nobody knowing who holds it, and among real parties everybody sees who sends to "
            "whom. Use an algorithm in which all agents take part."
        )


def _refuse_promises(privacy: PrivacySection) -> None:
    if privacy.losses == "problem":
        raise UnsupportedClaim(
            '[privacy] losses = "problem": the promise would be computed from the features of all parties, which nobody has. Promise numbers that hold for '
            "every record that could be: losses = { beta = .., nu = .. }; for logistic regression with unit_norm = true, beta = 0.25 + ridge and "
            "nu = ridge. Or remove losses."
        )
    if privacy.participation != "every-round":
        raise UnsupportedClaim(
            "[privacy] participation: a party uses its records in every round, so that no other promise would be kept. Remove participation."
        )


def _names(config: Config, given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Who the agents are, by the roster; files of a simulation that name the same agents must name them in that order."""
    listed = _named_files(config)
    if given is None:
        return listed
    if listed is not None and set(listed) == set(given) and listed != tuple(given):
        raise ConfigError(
            f"[problem] data lists the agents as {', '.join(map(brief, listed))}, and the roster, which is sorted, as {', '.join(map(brief, given))}; who "
            f"talks to whom would not be the same. List the files in the order of the roster."
        )
    return tuple(given)


def _named_files(config: Config) -> tuple[str, ...] | None:
    """The agents that a list of files names; a folder or a pattern says nothing before it is looked into."""
    problem = config.problem
    if not problem.many or isinstance(problem.data, str):
        return None
    return agent_names([Path(each) for each in problem.data])


def _counts(config: Config, names: tuple[str, ...] | None) -> tuple[int, ...]:
    """[K] the agreed numbers of records; empty where they do not enter, and where the data are public anyway."""
    if not records_enter(config) or config.problem.is_public:
        return ()
    agreed = None if config.deployment is None else config.deployment.records
    if agreed is None:
        raise ConfigError(
            "[deployment] records: this key is missing. Numbers of records enter a weight or a guarantee here, and must be agreed on before anybody reads "
            "data: records = { name = number, .. }, one that every agent has at least. With batch_size they are not needed for guarantees."
        )
    order = tuple(agreed) if names is None else names
    if set(order) != set(agreed):
        wrong = sorted(set(order) ^ set(agreed))[0]
        said = "has no number for" if wrong in order else "names"
        raise ConfigError(
            f"[deployment] records {said} {brief(wrong)!r}, and the agents of the roster are {', '.join(map(brief, order))}. Give one number for each of them, or complete the roster."
        )
    return tuple(agreed[name] for name in order)


def _agents(config: Config, names: tuple[str, ...] | None, counts: Sequence[int]) -> int:
    """How many agents there are."""
    declared, known = config.topology.num_agents, len(names) if names is not None else len(counts)
    if declared is None and not known:
        raise ConfigError(
            "[topology] agents: this key is missing. The column of owners says how many agents there are, and is not read here; give agents, or a roster."
        )
    if declared is not None and known:
        _refuse_other_number(names, declared)
        if known != declared:
            raise ConfigError(
                f"[deployment] records has {known} names, and [topology] {declared} agents. Give both the same."
            )
    return known if declared is None else declared


def _refuse_other_number(names: tuple[str, ...] | None, agents: int, *, needed: int | None = None) -> None:
    if needed is not None and needed != agents:
        raise ConfigError(
            f"the agreement has {agents} agents, and the file {needed}. Ask whoever made it for its file."
        )
    if names is not None and len(names) != agents:
        raise ConfigError(
            f"[topology] has {agents} agents, and {len(names)} are named: {', '.join(map(brief, names[:20]))}. Choose a topology for {len(names)}, or correct "
            f"the roster."
        )


def _notes(config: Config) -> tuple[str, ...]:
    problem = config.problem
    if config.problem.is_public:
        return ()
    given = {
        "partition": problem.partition is not None,
        "test_fraction": problem.test_fraction > 0,
        "test": problem.test is not None,
    }
    keys = [name for name, said in given.items() if said]
    if not keys:
        return ()
    return (_ALL_RECORDS.format(keys=" and ".join(keys), verb="are" if len(keys) > 1 else "is"),)
