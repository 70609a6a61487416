"""Sound inputs that the mutations start from: small configurations, data files, a comparison and two reproductions.

Together they use every topology, problem, algorithm, noise scheme and law at least once, so that a mutated key is read by
the code it belongs to.
"""

import io
from typing import Any

import numpy as np

Table = dict[str, Any]

_EXPERIMENT: Table = {"name": "small", "rounds": 6, "repeats": 2, "seed": 1, "chunk": 4}
_PROBLEM: Table = {"kind": "linear_regression", "data": "synthetic", "samples": 6, "dimension": 2, "ridge": 0.1}
_PRIVACY: Table = {"unit": "record", "clip": 1.0, "clip_norm": "l2", "delta": 1e-5, "observers": ["eavesdropper"]}
_GAUSSIAN: Table = {"kind": "independent", "law": "gaussian", "std": 0.5}


def _configuration(topology: Table, problem: Table, algorithm: Table, noise: Table, privacy: Table | None) -> Table:
    sections = {
        "experiment": _EXPERIMENT,
        "topology": topology,
        "problem": problem,
        "algorithm": algorithm,
        "noise": noise,
    }
    return sections if privacy is None else {**sections, "privacy": privacy}


CONFIGURATIONS: dict[str, Table] = {
    "peers": _configuration(
        {"kind": "ring", "agents": 5},
        _PROBLEM,
        {"kind": "atc", "step_size": 0.1, "batch_size": 2},
        {**_GAUSSIAN, "self_noise": True},
        {**_PRIVACY, "observers": ["eavesdropper", "curious_agent:3", "final_model"]},
    ),
    "csv": _configuration(
        {"kind": "erdos_renyi", "agents": 4, "probability": 0.9, "seed": 3, "weights": "laplacian"},
        {
            "kind": "logistic_regression",
            "data": "data.csv",
            "target": "label",
            "ridge": 0.1,
            "intercept": True,
            "test_fraction": 0.2,
        },
        {"kind": "atc", "step_size": 0.2},
        {"kind": "independent", "law": "laplace", "std": 1.0, "per_edge": False, "self_noise": True},
        {"unit": "record", "clip": 1.0, "clip_norm": "l1", "observers": ["links:0->1"]},
    ),
    "npz": _configuration(
        {"kind": "path", "agents": 3},
        {
            "kind": "classification",
            "data": "data.npz",
            "ridge": 0.01,
            "model": "mlp",
            "hidden": [3],
            "classes": 3,
            "partition": {"kind": "dirichlet", "alpha": 2.0, "min_partition_size": 2},
            "bounds": [-4.0, 4.0],
        },
        {"kind": "atc", "step_size": 0.1},
        {"kind": "independent", "law": "l2_laplace", "scale": 0.5},
        {**_PRIVACY, "observers": ["coalition:0,2"]},
    ),
    "libsvm": _configuration(
        {"kind": "federation", "agents": 4, "weights": "records"},
        {
            "kind": "linear_regression",
            "data": "data.libsvm",
            "ridge": 0.1,
            "unit_norm": True,
            "feature_noise": [0.0, 0.1],
            "partition": {"kind": "by_size", "growth": "linear"},
        },
        {"kind": "inexact_admm", "penalty": 3.0, "penalty_growth": 1.1, "linearise_at": "global"},
        {"kind": "central", "law": "gaussian", "std": 1.0},
        {**_PRIVACY, "observers": ["curious_agent:1"]},
    ),
    "federation": _configuration(
        {"kind": "federation", "agents": 6},
        {"kind": "logistic_regression", "data": "synthetic_clicks", "records": 60, "ridge": 0.1},
        {"kind": "fedavg", "step_size": 0.1, "local_steps": 2, "participation": 0.5, "batch_size": 3},
        {"kind": "central", "law": "gaussian", "std": 1.0},
        {**_PRIVACY, "unit": "agent", "clips": "update", "observers": ["final_model"]},
    ),
    "masked": _configuration(
        {"kind": "federation", "agents": 8},
        _PROBLEM,
        {
            "kind": "fedavg",
            "step_size": 0.1,
            "local_steps": 2,
            "server_step_size": 0.9,
            "aggregation": "gopa",
            "partners": 5,
            "pairwise_ratio": 50.0,
            "silence": 0.1,
            "minimum_agents": 5,
        },
        {"kind": "independent", "law": "gaussian", "std": 1.0},
        {**_PRIVACY, "unit": "agent", "clips": "update", "delta": 1e-3, "observers": ["colluding_server:0.25"]},
    ),
    "gossip": _configuration(
        {"kind": "grid", "rows": 2, "columns": 3},
        {"kind": "mean_estimation", "data": "truncated_gaussian", "samples": 4, "dimension": 2, "radius": 1.0},
        {"kind": "gossip", "accelerated": True},
        {"kind": "gradient", "law": "gaussian", "std": 1.0},
        {**_PRIVACY, "unit": "agent", "observers": ["curious_agent:0"]},
    ),
    "muffliato": _configuration(
        {"kind": "k_out", "agents": 6, "k": 2, "seed": 2},
        _PROBLEM,
        {"kind": "muffliato", "step_size": 0.1, "gossip_steps": 2, "accelerated": False},
        {"kind": "gradient", "law": "gaussian", "std": 1.0},
        {**_PRIVACY, "unit": "agent", "adjacency": "replace"},
    ),
    "walk": _configuration(
        {"kind": "complete", "agents": 5, "walk": True},
        _PROBLEM,
        {"kind": "random_walk", "step_size": 0.1, "contributions": 2},
        {"kind": "gradient", "law": "gaussian", "std": 1.0},
        {**_PRIVACY, "unit": "agent"},
    ),
    "prescribed": _configuration(
        {"kind": "star", "agents": 4},
        _PROBLEM,
        {"kind": "dgd", "step_size": 0.2, "gradient_rounds": 4, "box": 2.0},
        {"kind": "showkatbakhsh", "document_epsilon": 0.5, "document_delta": 0.01},
        _PRIVACY,
    ),
    "calibrated": _configuration(
        {"kind": "geometric", "agents": 6, "radius": 0.9, "seed": 1, "weights": "uniform"},
        _PROBLEM,
        {"kind": "atc", "step_size": 0.1},
        {"kind": "graph_homomorphic", "law": "gaussian", "epsilon": 2.0, "delta": 1e-6},
        {**_PRIVACY, "losses": "problem", "budget": {"epsilon": 8.0, "observer": "eavesdropper", "until_spent": True}},
    ),
    "pairs": _configuration(
        {"kind": "complete", "agents": 4},
        {"kind": "mean_estimation", "data": "data.csv", "target": "label", "radius": 3.0},
        {"kind": "cta", "step_size": 0.1},
        {"kind": "gopa", "law": "gaussian", "std": 0.5, "pairwise_std": 2.0},
        {**_PRIVACY, "losses": {"beta": 10.0, "nu": 0.0}},
    ),
    "failing links": _configuration(
        {"kind": "complete", "agents": 4, "dropout": 0.2},
        {**_PROBLEM, "ridge": 0.0},
        {"kind": "consensus", "step_size": 0.1},
        {"kind": "independent", "law": "l2_laplace", "scale": 0.5, "per_edge": False},
        {**_PRIVACY, "unit": "agent"},
    ),
    "promised": _configuration(  # for `account`; a run would not keep the promise
        {"kind": "ring", "agents": 4},
        _PROBLEM,
        {"kind": "atc", "step_size": 0.1},
        _GAUSSIAN,
        {**_PRIVACY, "participation": {"times": 2, "gap": 2}},
    ),
    "clear": _configuration(
        {"kind": "hypercube", "dimension": 2, "random_pair": True},
        {"kind": "logistic_regression", "data": "data.libsvm", "ridge": 0.0},
        {"kind": "atc", "step_size": 0.1, "batch_size": 2},
        {"kind": "none"},
        None,
    ),
    "local": _configuration(
        {"kind": "ring", "agents": 4},
        {
            "kind": "linear_regression",
            "data": "data.csv",
            "ridge": 0.1,
            "bounds": [[-4.0, 4.0], [-4.0, 4.0], [0.0, 8.0]],
        },
        {"kind": "atc", "step_size": 0.1},
        {"kind": "local_graph_homomorphic", "law": "gaussian", "std": 0.5},
        {**_PRIVACY, "losses": "problem", "adjacency": "add-remove"},
    ),
}
CONFIGURATIONS["deployed"] = {
    **CONFIGURATIONS["peers"],
    "deployment": {
        "run": "spring", "roster": "roster.json", "collude": 2, "releases": ["a", "b"], "fraction_bits": 28, "lost_neighbour": "wait", "time_limit": 60,
    },
}  # fmt: skip
CONFIGURATIONS["deployed by records"] = {
    **CONFIGURATIONS["libsvm"],
    "deployment": {"run": "autumn", "roster": "roster.json", "relay": "trusted", "releases": "public", "records": {"a": 3, "b": 4}},
}  # fmt: skip

_SHARED = {key: CONFIGURATIONS["peers"][key] for key in ("experiment", "topology", "problem", "algorithm", "privacy")}

DESIGN: Table = {
    **_configuration(
        {"kind": "path", "agents": 4}, _PROBLEM, {"kind": "atc", "step_size": 0.1}, {"kind": "none"}, _PRIVACY
    ),
    "design": {
        "targets": {"eavesdropper+final_model": 1.0, "any_coalition:1": {"epsilon": 4.0, "delta": 1e-6}},
        "objective": {"average": 1.0, "centroid": 2.0},
        "when": "final",
        "keys": "edges",
        "own_floor": 1e-6,
        "cap": 3.0,
        "time": "white",
        "frontier": [0.0, 1.0],
    },
}

COMPARISON: Table = {
    **_SHARED,
    "compare": {
        "epsilons": [1.0, 4.0],
        "observers": ["eavesdropper"],
        "algorithms": ["atc", "cta"],
        "measures": ["msd_centroid"],
        "tail": 2,
        "schemes": {
            "graph-homomorphic": {"kind": "graph_homomorphic", "law": "gaussian"},
            "own [noise]": {"kind": "independent", "law": "l2_laplace"},
            "pairwise": {"kind": "gopa", "law": "gaussian", "pairwise_std": 3.0},
        },
    },
}

REPRODUCTIONS: dict[str, Table] = {
    "learning": {
        "reproduction": {"title": "A study [small]", "document": "nobody, nowhere"},
        **{key: table for key, table in _SHARED.items() if key != "privacy"},
        "noise": {"kind": "none"},
        "study": [
            {
                "name": "noise", "measures": ["msd_centroid"], "figure": "scaling", "theory": True, "tail": 2,
                "series": {
                    "key": "noise",
                    "values": {"little": _GAUSSIAN, "much [bold]": {**_GAUSSIAN, "std": 2.0}},
                },
                "references": {"clear": {"noise": {"kind": "none"}}},
                "across": {"key": "algorithm.step_size", "label": "step size", "values": [0.05, 0.1]},
            }
        ],
        "claim": [
            {
                "id": "more", "text": "More noise [of any kind] hurts.", "study": "noise", "measure": "msd_centroid",
                "check": {"kind": "ratio", "of": "much [bold]", "to": "little", "at_least": 1.0},
            },
            {
                "id": "steps", "text": "It grows with the step.", "study": "noise", "measure": "msd_centroid",
                "check": {"kind": "slope", "of": "little", "between": [-9.0, 9.0]},
            },
        ],
    },
    "walking": {
        "reproduction": {"title": "A token", "document": "nobody, nowhere"},
        "privacy_study": [
            {"kind": "walk", "name": "agents", "agents": [5, 10], "hops_per_agent": 4, "epsilon": 0.1, "delta": 1e-6}
        ],
        "claim": [
            {
                "id": "gain", "text": "Published is not below proven.", "study": "agents", "measure": "epsilon",
                "check": {"kind": "ratio", "of": "proven, by gaps", "to": "local, exact", "at_most": 2.0},
            }
        ],
    },
}  # fmt: skip

_RECORDS = 36


def _numbers() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(7)
    features = np.round(generator.normal(size=(_RECORDS, 3)), 3)
    return features, np.where(np.arange(_RECORDS) % 2 == 0, 1, -1)


def csv_rows() -> list[list[str]]:
    """A header and rows of cells; the last column is the label, -1 or 1."""
    features, labels = _numbers()
    rows = [[f"{cell:g}" for cell in row] + [str(label)] for row, label in zip(features, labels, strict=True)]
    return [["first", "second", "third", "label"], *rows]


def libsvm_rows() -> list[list[str]]:
    """Rows of a label and entries `index:value`."""
    features, labels = _numbers()
    return [
        [str(label), *(f"{place + 1}:{cell:g}" for place, cell in enumerate(row))]
        for row, label in zip(features, labels, strict=True)
    ]


def npz_arrays() -> dict[str, np.ndarray]:
    """Features and classes 0, 1, 2."""
    return {"features": _numbers()[0], "targets": np.arange(_RECORDS) % 3}


def npz_bytes(arrays: dict[str, Any], *, pickled: bool = False) -> bytes:
    """The archive of these arrays; `pickled` writes Python objects too, which no reader may load."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=pickled, **arrays)
    return stream.getvalue()


def data_files() -> dict[str, bytes]:
    """The sound files that configurations name."""
    return {
        "data.csv": "".join(",".join(row) + "\n" for row in csv_rows()).encode(),
        "data.libsvm": "".join(" ".join(row) + "\n" for row in libsvm_rows()).encode(),
        "data.npz": npz_bytes(npz_arrays()),
    }
