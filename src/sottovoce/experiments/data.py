"""Records for the agents of an experiment: made or loaded, scaled, dealt out, and some of them kept for testing.

The order is: load, bounds, partition, feature noise, unit norm, intercept, images, test records.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.errors import ConfigError
from sottovoce.experiments.config.problem import (
    ClassificationProblem,
    LogisticProblem,
    MeanProblem,
    ProblemTable,
    Records,
    Test,
)
from sottovoce.problems import (
    ARRAY_FILES,
    LOADERS,
    Preparation,
    Schema,
    Table,
    add_feature_noise,
    add_intercept,
    agent_names,
    files_of,
    load,
    load_points,
    partition,
    public_bounds,
    read_records,
    read_table,
    scale_features,
    split,
    synthetic_clicks,
    synthetic_regression,
    table,
    truncated_gaussian,
    unit_norm,
)
from sottovoce.wording import brief

LARGEST_NUMBER = 1e15  # the squares of a million such numbers add up to less than the largest float32, 3.4e38


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AgentData:
    """What the agents of an experiment hold.

    Attributes:
        records: features and targets of each agent, to learn from.
        test: features and targets kept away from learning, of all together.
        names: of the agents, where the data have such.
        persons: whom each record to learn from is about, where the data say so.
        schema: what the columns mean, where that is declared.
        preparation: what is done to plain numbers before a model takes them, where no columns are declared.
    """

    records: Records
    test: Test
    names: tuple[str, ...] | None = None
    persons: list[np.ndarray] | None = None
    schema: Schema | None = None
    preparation: Preparation | None = None


def records_of_agents(section: ProblemTable, num_agents: int | None, seed: int) -> AgentData:
    """The records that agents learn from, and those that they do not.

    Args:
        section: where records come from.
        num_agents: among whom they are; None where the data say so.
        seed: of whatever is drawn.

    Raises:
        ConfigError: the data cannot be read, do not suit the problem, or are too few for these agents.
    """
    schema = section.declared_schema()
    data = _arrays(section, num_agents, seed) if schema is None else _tables(section, schema, num_agents, seed)
    held = len(data.records[0])
    if num_agents is not None and held != num_agents:
        raise ConfigError(
            f"{brief(section.name, 200)} names {held} owner(s), and [topology] has {num_agents} agents. Remove [topology] agents, or choose "
            f"a topology for {held}."
        )
    if section.test_fraction == 0:
        return data
    options: dict[str, Any] = {"test_fraction": section.test_fraction, "seed": seed, "persons": data.persons}
    train, test = split(*data.records, **options)
    if data.persons is None:
        return replace(data, records=train, test=test)
    learnt = split(data.persons, data.records[1], **options).train[0]  # whom the same records are about
    return replace(data, records=train, test=test, persons=learnt)


def blank_records(section: ProblemTable, agents: int, *, features: int | None) -> AgentData:
    """One blank record of each agent, in the form that the file declares, and nothing in it.

    Args:
        section: what the columns mean.
        agents: how many.
        features: numbers of a record, where no columns are declared; None: nobody has said.

    Raises:
        ConfigError: nothing says how many features there are, or classes.
    """
    schema, targets = section.declared_schema(), [np.zeros(1)] * agents
    if schema is not None:
        return AgentData(records=([np.zeros((1, len(schema.features)))] * agents, targets), test=None, schema=schema)
    if features is None:
        raise ConfigError(
            f"[problem] data = {brief(section.name, 200)!r}: nothing is declared about its columns, so that without reading it nobody knows how many "
            f"there are, or what they mean, and parties read their own files only. Declare them: target, labels or positive, and bounds, categories, "
            f"booleans or unscaled for the others (docs/data.md, own files); or, for files of plain numbers, say how many a record has by [deployment] "
            f"features."
        )
    _refuse_found(section)
    rows, _ = _scaled(section, np.zeros((1, features)), np.zeros(1))
    prepared = _prepared(section, [rows] * agents, seed=0)
    return AgentData(records=(prepared, targets), test=None, preparation=_preparation(section, features))


def _refuse_found(section: ProblemTable) -> None:
    """Refuse what files of plain numbers would have to be searched for, or what a study does to them."""
    if isinstance(section, ClassificationProblem) and section.classes is None:
        raise ConfigError(
            "[problem] classes: this key is missing. How many there are would be found in the labels, and parties read their own only."
        )
    if section.feature_noise is not None:
        raise ConfigError(
            "[problem] feature_noise makes agents of a study differ; parties differ by themselves. Remove it."
        )


def records_of_party(section: ProblemTable, source: Any, *, features: int | None) -> AgentData:
    """The records of one party's own file, all of them: nothing is dealt out, and nothing kept for testing.

    Args:
        section: what the columns mean.
        source: a file, or a frame. It may have the column of owners, where all rows name the same one.
        features: numbers of a record, where no columns are declared.

    Raises:
        ConfigError: columns that are not declared, several files, or records of several owners.
    """
    declared = section.declared_schema()
    if declared is None:
        return _numbers_of_party(section, source, features)
    held, schema = _one_table(source), replace(declared, owner=None)
    if declared.owner is not None and declared.owner in held.columns:
        owners = read_records(held, declared).names or ()
        if len(owners) > 1:
            raise ConfigError(
                f"{brief(held.source, 200)} has the records of {len(owners)} owners in its column {brief(declared.owner)!r}; a party learns from its "
                f"own alone. Give a file with the rows of one owner."
            )
        schema = replace(schema, drop=(*schema.drop, declared.owner))
    found = read_records(held, schema)
    targets = [_declared_labels(section, part) for part in found.targets]
    return AgentData(records=(found.features, targets), test=None, persons=found.persons, schema=declared)


def _numbers_of_party(section: ProblemTable, source: Any, features: int | None) -> AgentData:
    """A party's file of plain numbers, as many in a record as all parties agreed on."""
    form = blank_records(section, 1, features=features)  # refuses what is not said
    if section.is_public or not isinstance(source, str | Path) or str(source) in LOADERS:
        raise ConfigError(
            f"{brief(str(source), 200)} is no party's own file of plain numbers. Give the path of one: {', '.join(ARRAY_FILES)} or .csv."
        )
    found, targets = _whole(section, str(source), 0)
    if found.shape[1] != features:
        raise ConfigError(
            f"{brief(str(source), 200)} has {found.shape[1]} features, and [deployment] features = {features}. Give a file like those of the other parties."
        )
    rows, targets = _scaled(section, found, targets)
    return replace(form, records=(_prepared(section, [rows], seed=0), [targets]))


def _one_table(source: Any) -> Table:
    """The one file of a party, or its frame."""
    if not isinstance(source, str | Path):
        return table(source)
    files = files_of(source)
    if len(files) != 1:
        raise ConfigError(
            f"{brief(str(source), 200)} names {len(files)} files; a party has one. Give its path, or put its files together."
        )
    return read_table(files[0])


def _tables(section: ProblemTable, schema: Schema, num_agents: int | None, seed: int) -> AgentData:
    """Own files, whose columns are declared."""
    found = read_records(
        section.data if isinstance(section.data, str) else list(section.data), schema, test=section.test
    )
    features, targets = found.parts
    if found.names is None:
        assert num_agents is not None  # a file that names no owners is refused without it
        features, targets = _dealt(section, features[0], targets[0], num_agents, seed)
    targets = [_declared_labels(section, part) for part in targets]
    test = None if found.test is None else (found.test[0], _declared_labels(section, found.test[1]))
    return AgentData(records=(features, targets), test=test, names=found.names, persons=found.persons, schema=schema)


def _declared_labels(section: ProblemTable, targets: np.ndarray) -> np.ndarray:
    """Labels as a problem takes them: classifiers count two classes as 0 and 1."""
    two = isinstance(section, ClassificationProblem) and section.declared_classes == 2
    return (targets + 1) / 2 if two else targets


def _arrays(section: ProblemTable, num_agents: int | None, seed: int) -> AgentData:
    """Data sets by name, synthetic ones, and files of plain numbers."""
    if section.many:
        files = files_of(list(section.sources), ARRAY_FILES)
        parts = [_scaled(section, *_whole(section, str(path), seed)) for path in files]
        names, features, targets = agent_names(files), [part[0] for part in parts], [part[1] for part in parts]
    else:
        assert num_agents is not None  # a file that names no owners is refused without it
        names, (features, targets) = None, _made(section, num_agents, seed) or _dealt_out(section, num_agents, seed)
    preparation = _preparation(section, features[0].shape[1])
    return AgentData(
        records=(_prepared(section, features, seed), targets), test=None, names=names, preparation=preparation
    )


def _preparation(section: ProblemTable, count: int) -> Preparation:
    """What is done to a record's `count` numbers before a model takes them; the noise that a study may add is no part of it."""
    bounds = (
        section.bounds if section.bounds is not None or section.data not in LOADERS else public_bounds(section.name)
    )
    pairs = None
    if bounds is not None:
        limits = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (count, 2))
        pairs = tuple((float(low), float(high)) for low, high in limits)
    return Preparation(pairs, section.unit_norm, section.intercept)


def _prepared(section: ProblemTable, features: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """Features as the model takes them, each record by itself."""
    if section.feature_noise is not None:
        features = add_feature_noise(features, std=section.feature_noise, seed=seed)
    if section.unit_norm:
        features = [unit_norm(part) for part in features]
    if section.intercept:
        features = [add_intercept(part, keep_norm=section.unit_norm) for part in features]
    if isinstance(section, ClassificationProblem) and section.model == "cnn":
        features = [_images(part) for part in features]
    return features


def _made(section: ProblemTable, num_agents: int, seed: int) -> Records | None:
    """Synthetic records made for each agent; None when the data are one set to be dealt out."""
    if isinstance(section, LogisticProblem | ClassificationProblem):
        return None
    if section.samples is None or section.dimension is None:
        return None
    samples, dimension = section.samples, section.dimension
    if section.data == "truncated_gaussian" and isinstance(section, MeanProblem):
        points = truncated_gaussian(
            num_agents=num_agents, samples=samples, dimension=dimension, radius=section.radius, seed=seed
        )
        return list(points), [np.zeros(samples)] * num_agents
    made = synthetic_regression(num_agents=num_agents, samples=samples, dimension=dimension, seed=seed)
    return list(made.features), list(made.targets)


def _dealt_out(section: ProblemTable, num_agents: int, seed: int) -> Records:
    features, targets = _scaled(section, *_whole(section, section.name, seed))
    return _dealt(section, features, targets, num_agents, seed)


def _dealt(section: ProblemTable, features: np.ndarray, targets: np.ndarray, num_agents: int, seed: int) -> Records:
    options = {"kind": "iid"} if section.partition is None else section.partition.model_dump()
    return partition(features, targets, num_agents=num_agents, seed=seed, **options)


def _scaled(section: ProblemTable, features: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if section.bounds is not None:
        features = scale_features(features, section.bounds)
    elif section.data in LOADERS:  # scaling by the data themselves would leak them: these bounds are known beforehand
        features = scale_features(features, public_bounds(section.name))
    _refuse_overflow(section.name, features, "feature")
    _refuse_overflow(section.name, targets[:, None], "target")
    return features, targets


def _refuse_overflow(data: str, numbers: np.ndarray, what: str) -> None:
    """Refuse numbers [N, columns] whose squares a simulation in single precision could not hold."""
    wrong = np.argwhere(np.abs(numbers) > LARGEST_NUMBER)
    if len(wrong):
        record, column = (int(place) for place in wrong[0])
        name = f"feature {column}" if what == "feature" else "the target"
        raise ConfigError(
            f"{data}: {name} of record {record}, both counted from 0, is above {LARGEST_NUMBER:g} in size; such numbers "
            f"overflow when they are squared. Scale the data{', or give [problem] bounds' if what == 'feature' else ''}."
        )


def _whole(section: ProblemTable, source: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One data set, or one file of it, not yet split: features [N, d] and targets [N]."""
    if isinstance(section, LogisticProblem) and section.records is not None:
        return synthetic_clicks(num_records=section.records, seed=seed)
    if isinstance(section, MeanProblem):
        points, labels = load_points(source, target=section.target)
        return points, np.zeros(len(points)) if labels is None else labels
    features, targets = load(source, target=section.target)
    if isinstance(section, ClassificationProblem):
        return features, _class_labels(section, targets)
    return features, targets


def _class_labels(section: ClassificationProblem, labels: np.ndarray) -> np.ndarray:
    """Labels 0, 1, ..; the two classes -1 and 1 become 0 and 1."""
    data, classes, found = section.name, section.classes, np.unique(labels)
    if found[0] == -1 and np.isin(found, (-1, 1)).all():
        if classes not in (None, 2):
            raise ConfigError(
                f"{data}: labels are -1 and 1, which are two classes; [problem] classes is {classes}. Use 2."
            )
        labels, found = (labels + 1) / 2, (found + 1) / 2
    wrong = [*found[found != np.floor(found)], *found[found < 0]]
    if wrong:
        raise ConfigError(
            f"{data}: a label is no whole number from 0 on; classes are whole numbers 0, 1, .., or -1 and 1. Number them so, "
            f"or name another column by [problem] target (.csv)."
        )
    if classes is None and len(found) < 2:
        raise ConfigError(
            f"{data}: all records are of one class; a classifier needs two classes or more. If others may come, "
            f"say how many by [problem] classes."
        )
    if classes is None and found[-1] >= len(labels):
        raise ConfigError(
            f"{data}: the largest label makes more classes than there are records. Number "
            f"classes from 0, or say how many there are by [problem] classes."
        )
    if classes is not None and found[-1] >= classes:
        raise ConfigError(
            f"{data}: a label is too large: [problem] classes = {classes} are numbered 0 to {classes - 1}. "
            f"Use more classes, or number them from 0."
        )
    return labels


def _images(features: np.ndarray) -> np.ndarray:
    """Rows of pixels [n, d] as square images [n, height, width]."""
    side = math.isqrt(features.shape[1])
    if side * side != features.shape[1]:
        raise ConfigError(
            f'[problem] model = "cnn" needs square images, row after row; a record has {features.shape[1]} features, which is no '
            f'square number. Use model = "mlp".'
        )
    return features.reshape(-1, side, side)
