"""How accurate private logistic regression is on two small data sets, by one rule from public numbers alone, beside diffprivlib.

Five agents with the same share of the records, a federation whose relay adds the noise (`sv.noise.central`), delta 1e-5, one record replaced, for
an agent that sees every average. Two releases, each a run of the simulator with the noise that `sv.calibrate` gives it:

    the mean of the scaled features, one round    drawn towards its own average, it becomes the centre of every record
    logistic regression around that centre        rounds, step and clip by `sv.recommended_setting`

The rule knows the number of records, the number of parameters, epsilon and delta; ranges of the features are public. Epsilon of both
together comes from what `sv.account` states of each: Gaussian losses add up, mu^2 = mu_mean^2 + mu_learning^2, the second release being chosen
after the first. Splits deal the records out anew and keep a fifth of each agent's for testing. Beside it, in the same splits:

    without the mean    the same rule, all of epsilon for learning, records around the middle of their ranges
    diffprivlib         its LogisticRegression as it comes, for all records in one hand, on features scaled to public ranges (data_norm = sqrt(d)) and on
                        records of length 1 (data_norm = 1); its guarantee is the stronger pure epsilon
    scikit-learn        LogisticRegression as it comes, without privacy, on the features scaled to public ranges

diffprivlib is installed, with a scikit-learn that it can be imported beside, into an environment of its own. Nothing fails when a target is missed: it is said.

    python benchmarks/parity.py                     writes benchmarks/results/parity.json
    python benchmarks/parity.py --quick             two splits, to see that it runs; its medians mean nothing
    --skip-diffprivlib                              leave it out (nothing is written without --output)
    --environments DIR                              where diffprivlib is installed (default: the user's cache folder)
    --output FILE                                   write the results there
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from engine import ONE_THREAD, rounded
from federated import cache_folder, install, run_bounded

import sottovoce as sv

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "parity.json"
REQUIREMENTS = ("diffprivlib==0.6.6", "scikit-learn==1.5.2", "numpy==2.4.6")
TARGETS = {  # median accuracy asked for, by epsilon
    "breast_cancer": {0.3: 0.80, 1.0: 0.92, 4.0: 0.96},
    "digits": {0.3: 0.78, 1.0: 0.86, 4.0: 0.89},
}
AGENTS, SPLITS, TEST_FRACTION, DELTA = 5, 20, 0.2, 1e-5
PEER_SECONDS = 1200
MEAN_SEEDS = 1_000_000  # above every seed of learning


class Records(NamedTuple):
    """One split: features scaled to public ranges, by agent, and the test records of all."""

    features: list[np.ndarray]
    labels: list[np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @property
    def number(self) -> int:
        return sum(len(part) for part in self.labels)

    def around(self, centre: np.ndarray) -> "Records":
        """The records that a model learns from, and those that it is tested on, prepared alike."""
        centred = [sv.problems.centred_features(part, centre) for part in self.features]
        return Records(centred, self.labels, (sv.problems.centred_features(self.test[0], centre), self.test[1]))


class Learnt(NamedTuple):
    accuracy: float
    epsilon: float  # of everything that was released, as accounted
    rounds: int
    step_size: float


class Release(NamedTuple):
    run: sv.Run
    mu: float  # what is accounted for it
    std: float  # of its noise


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of private logistic regression beside diffprivlib.")
    parser.add_argument("--quick", action="store_true", help="two splits, to see that it runs")
    parser.add_argument("--skip-diffprivlib", action="store_true", help="leave diffprivlib out")
    parser.add_argument("--environments", type=Path, default=cache_folder(), help="where diffprivlib is installed")
    parser.add_argument("--output", type=Path, help="file for the results")
    options = parser.parse_args()
    splits = 2 if options.quick else SPLITS
    peer, skipped = {}, "left out with --skip-diffprivlib"
    if not options.skip_diffprivlib:
        peer, skipped = run_diffprivlib(options.environments, splits)
    results = {"facts": facts(splits), "skipped": {"diffprivlib": skipped} if skipped else {}, "data": {}}
    for name in TARGETS:
        results["data"][name] = measure(name, splits, peer.get(name, {}))
    print_results(results)
    output = options.output or (None if options.quick or options.skip_diffprivlib else RESULTS)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(rounded(results), indent=1) + "\n")


def facts(splits: int) -> dict[str, Any]:
    return {
        "agents": AGENTS, "splits": splits, "test_fraction": TEST_FRACTION, "delta": DELTA, "unit": "record", "adjacency": "replace",
        "diffprivlib": " ".join(REQUIREMENTS), "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("sottovoce", "jax", "numpy", "scikit-learn")},
    }  # fmt: skip


def split_of(name: str, number: int) -> Records:
    features, labels = sv.problems.load(name)
    scaled = sv.problems.scale_features(features, sv.problems.public_bounds(name))
    dealt = sv.problems.partition(scaled, labels, num_agents=AGENTS, seed=number, kind="iid")
    kept = sv.problems.split(*dealt, test_fraction=TEST_FRACTION, seed=number)
    return Records(*kept.train, kept.test)


def learn(records: Records, epsilon: float, *, seed: int, mean_share: float) -> Learnt:
    """Both releases by the rule, or the second alone where the mean has no share."""
    parameters = records.features[0].shape[1] + 1
    setting = sv.recommended_setting(
        records=records.number, parameters=parameters, epsilon=epsilon, delta=DELTA, mean_share=mean_share
    )
    centre, mean_mu = np.zeros(parameters - 1), 0.0
    if mean_share:
        points = sv.problems.mean_estimation(records.features, radius=1.0)
        # From the model 0 one step of size 1 is the mean itself. A seed of its own: the two releases need noise that knows nothing of each other.
        mean = release(points, epsilon=setting.mean_epsilon, rounds=1, step_size=1.0, seed=MEAN_SEEDS + seed)
        centre, mean_mu = sv.problems.shrunk_mean(mean.run.models[0, 0], std=mean.std), mean.mu
    around = records.around(centre)
    logistic = sv.problems.logistic_regression(around.features, around.labels, ridge=0.0)
    learnt = release(
        logistic.with_clipping(setting.clip, "l2"), epsilon=setting.learning_epsilon, rounds=setting.rounds,
        step_size=setting.step_size, seed=seed, test=around.test,
    )  # fmt: skip
    return Learnt(
        accuracy=float(learnt.run.metrics["accuracy"][0, -1]),
        epsilon=sv.accounting.gaussian.epsilon(math.hypot(mean_mu, learnt.mu), DELTA),
        rounds=setting.rounds,
        step_size=setting.step_size,
    )


def release(
    problem: Any, *, epsilon: float, rounds: int, step_size: float, seed: int, test: tuple[Any, Any] | None = None
) -> Release:
    """One run with noise in the average, calibrated to epsilon for an agent that sees every average, and its account."""
    federation, observer = sv.topologies.federation(AGENTS), sv.observers.curious_agent(0)
    algorithm, noise = sv.algorithms.fedavg(step_size=step_size), sv.noise.central(sv.noise.Gaussian(std=1.0))
    # The worst agent's sensitivity stands for all, so that the same holds for whichever agent looks.
    sensitivity = problem.sensitivity(unit="record", adjacency="replace", norm="l2")
    question = sv.Question(rounds=rounds, unit="record", adjacency="replace", sensitivity=sensitivity)
    noise = sv.calibrate(federation, algorithm, noise, observer, epsilon=epsilon, delta=DELTA, question=question)
    mu = sv.account(federation, algorithm, noise, observer, question=question).mu
    assert mu is not None  # Gaussian noise
    record = ("accuracy",) if test is not None else ()
    run = sv.simulate(
        problem, federation, algorithm, noise, rounds=rounds, seed=seed, record=record, test=test, progress=False
    )
    return Release(run, mu, float(noise.std))


def without_privacy(records: Records) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=10_000).fit(np.concatenate(records.features), np.concatenate(records.labels))
    return float(model.score(*records.test))


def measure(name: str, splits: int, peer: dict[str, Any]) -> dict[str, Any]:
    """Everybody's accuracies on one data set, as medians with quartiles over the splits."""
    all_records = [split_of(name, number) for number in range(splits)]
    rows: dict[str, Any] = {}
    for epsilon, target in TARGETS[name].items():
        print(f"{name}, epsilon {epsilon:g}", file=sys.stderr, flush=True)
        learnt, plain = (
            [learn(records, epsilon, seed=number, mean_share=share) for number, records in enumerate(all_records)]
            for share in (0.2, 0.0)
        )
        ours = spread([one.accuracy for one in learnt])
        rows[f"{epsilon:g}"] = {
            "rounds": learnt[0].rounds,
            "step_size": learnt[0].step_size,
            "accounted_epsilon": max(one.epsilon for one in [*learnt, *plain]),
            "sottovoce": ours,
            "without the mean": spread([one.accuracy for one in plain]),
            **{label: spread(accuracies) for label, accuracies in peer.get(f"{epsilon:g}", {}).items()},
            "target": target,
            "reached": ours["median"] >= target,
        }
    return {
        "records": all_records[0].number,
        "parameters": all_records[0].features[0].shape[1] + 1,
        "largest_class": statistics.median(float(max(np.mean(r.test[1] > 0), np.mean(r.test[1] < 0))) for r in all_records),
        "scikit-learn": spread([without_privacy(records) for records in all_records]),
        "epsilon": rows,
    }  # fmt: skip


def spread(accuracies: list[float]) -> dict[str, float]:
    low, median, high = np.quantile(accuracies, (0.25, 0.5, 0.75))
    return {"median": float(median), "lower_quartile": float(low), "upper_quartile": float(high)}


def run_diffprivlib(environments: Path, splits: int) -> tuple[dict[str, Any], str]:
    """{data set: {epsilon: {label: accuracies}}} of diffprivlib in its own environment, or why there is nothing."""
    found = install(REQUIREMENTS, environments.expanduser().resolve() / "diffprivlib")
    if not found.installed:
        return {}, f"could not be installed: {found.problem}"
    with tempfile.TemporaryDirectory(prefix="sv") as folder:
        data, output = Path(folder) / "data.npz", Path(folder) / "accuracies.json"
        np.savez(data, **{key: value for name in TARGETS for key, value in arrays_of(name, splits).items()})
        epsilons = sorted({f"{epsilon:g}" for row in TARGETS.values() for epsilon in row}, key=float)
        command = [str(found.interpreter), str(HERE / "parity_diffprivlib.py"), str(data), str(output), *epsilons]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | ONE_THREAD
        with (Path(folder) / "log.txt").open("w+") as log:
            problem = run_bounded(command, environment, log, PEER_SECONDS)
        if problem or not output.exists():
            return {}, f"failed: {problem or 'it ended without a result'}"
        accuracies: dict[str, Any] = json.loads(output.read_text())
        return accuracies, ""


def arrays_of(name: str, splits: int) -> dict[str, np.ndarray]:
    """What the peer learns from and is tested on: the splits of one data set, under names of their own."""
    arrays: dict[str, np.ndarray] = {}
    for number in range(splits):
        records = split_of(name, number)
        values = (np.concatenate(records.features), np.concatenate(records.labels), *records.test)
        parts = zip(("features", "labels", "test_features", "test_labels"), values, strict=True)
        arrays |= {f"{name}/{number}/{part}": value for part, value in parts}
    return arrays


def print_results(results: dict[str, Any]) -> None:
    print(", ".join(f"{name} {value}" for name, value in results["facts"].items()))
    for name, reason in results["skipped"].items():
        print(f"{name} is skipped: {reason}")
    for name, found in results["data"].items():
        print(f"\n{name}: {found['records']} records, {found['parameters']} parameters; medians")
        print(f"  the larger class {found['largest_class']:.3f}, scikit-learn {found['scikit-learn']['median']:.3f}")
        for epsilon, row in found["epsilon"].items():
            verdict = "reached" if row["reached"] else "MISSED"
            print(f"  epsilon {epsilon}: {row['sottovoce']['median']:.3f}, target {row['target']:.2f}: {verdict}")
            print(f"    {row['rounds']} rounds, step {row['step_size']:.2f}, epsilon {row['accounted_epsilon']:.4f}")
            others = {label: value["median"] for label, value in row.items() if isinstance(value, dict)}
            del others["sottovoce"]
            for label, median in others.items():
                print(f"    {label:<32} {median:.3f}")


if __name__ == "__main__":
    main()
