"""diffprivlib's logistic regression in the splits of parity.py; runs inside diffprivlib's own environment, started by parity.py.

    python parity_diffprivlib.py DATA OUTPUT EPSILON [EPSILON ...]

Everything but epsilon and data_norm is its default. Features are scaled to [-1, 1] by public ranges, so that sqrt(d) bounds a record's length without a
look at the data; records brought to length 1 need only 1.
"""

import json
import math
import sys

import numpy as np
from diffprivlib.models import LogisticRegression


def main() -> None:
    path, output, *epsilons = sys.argv[1:]
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, number in sorted({tuple(key.split("/")[:2]) for key in arrays}, key=lambda pair: (pair[0], int(pair[1]))):
        features, labels, test_features, test_labels = (
            arrays[f"{name}/{number}/{part}"] for part in ("features", "labels", "test_features", "test_labels")
        )
        preparations = {
            "diffprivlib, public ranges": (features, test_features, math.sqrt(features.shape[1])),
            "diffprivlib, records of length 1": (at_length_one(features), at_length_one(test_features), 1.0),
        }
        for epsilon in epsilons:
            row = found.setdefault(name, {}).setdefault(epsilon, {label: [] for label in preparations})
            for label, (learnt_from, tested_on, norm) in preparations.items():
                model = LogisticRegression(epsilon=float(epsilon), data_norm=norm, random_state=int(number))
                row[label].append(float(model.fit(learnt_from, labels).score(tested_on, test_labels)))
    with open(output, "w") as file:
        json.dump(found, file)


def at_length_one(features: np.ndarray) -> np.ndarray:
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)


if __name__ == "__main__":
    main()
