"""Small tables of three owners, and everything that must be set."""

import numpy as np
import pandas
import pytest

from sottovoce.sklearn import DecentralizedLogisticRegression

PRIVACY = {
    "epsilon": 2.0,
    "delta": 1e-5,
    "clip": 1.0,
    "bounds": (0.0, 10.0),
    "observer": "eavesdropper",
    "unit": "record",
    "adjacency": "replace",
    "rounds": 20,
    "random_state": 3,
}


@pytest.fixture(scope="session")
def privacy():
    return dict(PRIVACY)


@pytest.fixture(scope="session")
def frame():
    """60 patients of three hospitals: two columns, their hospital and their label."""
    generator = np.random.default_rng(0)
    features = generator.uniform(0, 10, (60, 2))
    return pandas.DataFrame(
        {
            "age": features[:, 0],
            "hospital": np.array(["bern", "genf", "basel"])[np.arange(60) % 3],
            "dose": features[:, 1],
            "ill": np.where(features.sum(axis=1) + generator.normal(0, 1, 60) > 10, "yes", "no"),
        }
    )


@pytest.fixture(scope="session")
def fitted(frame):
    """A logistic regression of these patients."""
    return DecentralizedLogisticRegression(**PRIVACY, owner="hospital").fit(frame.drop(columns="ill"), frame["ill"])
