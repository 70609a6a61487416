"""The [problem] section says where records come from, how they are scaled and who gets them."""

import numpy as np
import pytest

from sottovoce.errors import ConfigError
from sottovoce.experiments import build, parse
from sottovoce.experiments.config.config import CHOICES, Config
from sottovoce.problems import load, synthetic_clicks, truncated_gaussian

CANCER = {"kind": "logistic_regression", "data": "breast_cancer", "ridge": 0.01}
CLICKS = {"kind": "logistic_regression", "data": "synthetic_clicks", "records": 300, "ridge": 0.001}
SYNTHETIC = {"kind": "linear_regression", "data": "synthetic_regression", "samples": 6, "dimension": 2, "ridge": 0.1}
POINTS = {"kind": "mean_estimation", "data": "truncated_gaussian", "samples": 7, "dimension": 3, "radius": 2.0}
TABLE = "age,dose,y\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(40))


def config(**problem):
    return parse(
        {
            "experiment": {"name": "x", "rounds": 3, "seed": 5},
            "topology": {"kind": "ring", "agents": 4},
            "problem": problem,
            "algorithm": {"kind": "atc", "step_size": 0.1},
            "noise": {"kind": "none"},
        },
        source="test",
    )


def made(**problem):
    return build(config(**problem)).problem


def refusal(**problem):
    with pytest.raises(ConfigError) as caught:
        made(**problem)
    return str(caught.value)


def rows(problem):
    """All records of all agents, one sorted matrix."""
    whole = np.concatenate([x[:n] for x, n in zip(problem.features, problem.sizes, strict=True)])
    return whole[np.lexsort(whole.T)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text(TABLE)
    return str(path)


def test_synthetic_regression_has_a_short_and_a_long_name_for_one_configuration():
    assert config(**SYNTHETIC) == config(**{**SYNTHETIC, "data": "synthetic"})
    assert made(**SYNTHETIC).features.shape == (4, 6, 2)


def test_clicks_are_dealt_out_to_the_agents():
    problem = made(**CLICKS)
    features, labels = synthetic_clicks(num_records=300, seed=5)
    assert problem.sizes.tolist() == [75] * 4
    assert np.array_equal(rows(problem), features[np.lexsort(features.T)])
    assert (problem.labels == 1).sum() == (labels == 1).sum()
    grown = made(**CLICKS, partition={"kind": "by_size", "growth": "linear"})
    assert grown.sizes.tolist() == [30, 60, 90, 120]


def test_truncated_gaussian_points_reach_mean_estimation():
    problem = made(**POINTS)
    expected = truncated_gaussian(num_agents=4, samples=7, dimension=3, radius=2.0, seed=5)
    assert np.array_equal(problem.points, expected)


PARTITIONS = {
    "iid": {},
    "dirichlet": {"alpha": 0.3, "min_partition_size": 20, "self_balancing": True},
    "by_label": {"labels_per_agent": 1},
    "by_size": {"growth": "square"},
}


def test_every_kind_of_partition_is_tried_here():
    assert PARTITIONS.keys() == CHOICES["partition"].keys()


@pytest.mark.parametrize("kind", PARTITIONS)
def test_every_partition_reaches_the_agents_and_survives_json(kind):
    section = {**CANCER, "partition": {"kind": kind, **PARTITIONS[kind]}}
    problem = made(**section)
    assert problem.sizes.sum() == 569
    assert Config.model_validate(config(**section).as_dict()) == config(**section)
    labels = [set(y[:n]) for y, n in zip(problem.labels, problem.sizes, strict=True)]
    match kind:
        case "iid":
            assert np.ptp(problem.sizes) <= 1
        case "dirichlet":
            assert np.ptp(problem.sizes) > 5
            assert problem.sizes.min() >= 20
        case "by_label":
            assert all(len(own) == 1 for own in labels)
        case "by_size":
            assert problem.sizes.tolist() == [19, 76, 171, 303]


def test_file_is_used_as_it_is_unless_bounds_or_unit_norm_are_given(table):
    section = {"kind": "linear_regression", "data": table, "ridge": 0.1}
    assert rows(made(**section)).max() == 39.0
    assert made(**section, target="age").dimension == 2
    assert np.abs(rows(made(**section, bounds=[0, 100]))).max() <= 1.0
    each = rows(made(**section, bounds=[[0, 39], [0, 6]]))
    assert (each.min(axis=0) == -1.0).all()
    assert (each.max(axis=0) == 1.0).all()
    norms = np.linalg.norm(rows(made(**section, unit_norm=True)), axis=1)
    np.testing.assert_allclose(norms[norms > 0], 1.0)


def test_bounds_of_the_file_replace_the_public_ones():
    assert not np.array_equal(rows(made(**CANCER)), rows(made(**CANCER, bounds=[0, 5000])))
    assert np.abs(rows(made(**CANCER))).max() <= 1.0


def test_intercept_is_appended_and_keeps_the_unit_norm():
    assert (rows(made(**CANCER, intercept=True))[:, -1] == 1.0).all()
    both = rows(made(**CANCER, intercept=True, unit_norm=True))
    assert both.shape == (569, 31)
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1.0)
    np.testing.assert_allclose(both[:, -1], np.sqrt(0.5))


def test_feature_noise_comes_before_the_norm_and_differs_by_agent():
    noisy, clean = made(**CLICKS, feature_noise=[0.1, 1.0]), made(**CLICKS)
    stds = (noisy.features - clean.features).std(axis=(1, 2))
    assert len(np.unique(stds.round(3))) == 4
    assert stds.min() > 0.09
    assert stds.max() < 1.1
    scaled = made(**CLICKS, feature_noise=[0.1, 1.0], unit_norm=True)
    np.testing.assert_allclose(np.linalg.norm(rows(scaled), axis=1), 1.0)
    assert np.array_equal(noisy.labels, clean.labels)


def test_mean_of_a_table_takes_all_columns_unless_one_holds_labels(table):
    section = {"kind": "mean_estimation", "data": table, "radius": 40.0}
    assert made(**section).dimension == 3
    by_label = {**section, "target": "y", "partition": {"kind": "by_label", "labels_per_agent": 1}}
    assert made(**by_label).dimension == 2
    del by_label["target"]
    assert "needs target, the column of labels" in refusal(**by_label)


def test_npz_and_libsvm_files_are_data_too(tmp_path):
    features, labels = load("breast_cancer")
    np.savez(tmp_path / "a.npz", X=features[:40], y=labels[:40])
    lines = [
        f"{y:g} " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row, 1))
        for row, y in zip(features[:40].tolist(), labels[:40], strict=True)
    ]
    (tmp_path / "a.libsvm").write_text("\n".join(lines))
    one, two = (rows(made(**{**CANCER, "data": str(tmp_path / name)})) for name in ("a.npz", "a.libsvm"))
    assert np.array_equal(one, two)
    assert len(one) == 40


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ({**CANCER, "records": 5}, 'records applies to data = "synthetic_clicks" only; remove it'),
        ({**CANCER, "samples": 5}, "only to linear_regression, mean_estimation"),
        ({**CLICKS, "records": None}, 'data = "synthetic_clicks" needs records (of all agents)'),
        ({**CLICKS, "kind": "linear_regression"}, "[problem]"),
        ({**SYNTHETIC, "data": "synthetic_clicks"}, 'data = "synthetic_clicks" is made for logistic_regression only'),
        ({**CANCER, "data": "synthetic"}, 'data = "synthetic" is made for linear_regression, mean_estimation only'),
        ({**SYNTHETIC, "dimension": None}, 'data = "synthetic" needs dimension'),
        ({**SYNTHETIC, "data": "diabetes"}, 'samples and dimension apply to data = "synthetic" only; remove them'),
        ({**POINTS, "data": "digits"}, 'apply to data = "synthetic", "truncated_gaussian" only'),
        ({**POINTS, "partition": {"kind": "iid"}}, "partition does not apply to truncated_gaussian data"),
        ({**SYNTHETIC, "bounds": [0, 1]}, "bounds do not apply to synthetic data"),
        ({**POINTS, "feature_noise": [0, 1]}, "only to linear_regression, logistic_regression"),
        ({**POINTS, "intercept": True}, "only to linear_regression, logistic_regression"),
        (
            {**CANCER, "target": "y"},
            'target names a column of a .csv or .parquet file, and data = "breast_cancer" is none',
        ),
        ({**CANCER, "targett": "y"}, "did you mean 'target'?"),
        ({**CANCER, "unitnorm": True}, "did you mean 'unit_norm'?"),
        ({**CANCER, "bounds": 3}, "[problem] bounds: write two finite numbers, [low, high]"),
        ({**CANCER, "bounds": [1, 0]}, "[problem] bounds: write two finite numbers"),
        ({**CANCER, "bounds": [1, 1]}, "low < high"),
        ({**CANCER, "bounds": ["0", "1"]}, "[problem] bounds"),
        ({**CANCER, "bounds": [[0, 1], [0]]}, "[problem] bounds: write two finite numbers, [low, high]; given [0]"),
        ({**CANCER, "bounds": [[0, 1], [0, 1]]}, "one for each of 30 features"),
        ({**CANCER, "feature_noise": [-1, 1]}, "[problem] feature_noise: standard deviations are not negative"),
        ({**CANCER, "feature_noise": 0.3}, "[problem] feature_noise: write two finite numbers"),
        ({**CANCER, "intercept": 1}, "[problem] intercept"),
        ({**CANCER, "partition": {"kind": "iid", "alpha": 1.0}}, "only to dirichlet"),
        ({**CANCER, "partition": {"kind": "iid", "labels_per_agent": 1}}, "only to by_label"),
        ({**CANCER, "partition": {"kind": "by_size"}}, "[problem] partition.growth: this key is missing"),
        ({**CANCER, "partition": {"kind": "by_size", "growth": "linea"}}, "did you mean 'linear'?"),
        ({**CANCER, "partition": {"kind": "by_label", "labels_per_agent": 3}}, "the 2 label(s) there are; got 3"),
        ({**CANCER, "partition": {"kind": "iid", "min_partition_size": 200}}, "need 800 records, but there are 569"),
        ({**CANCER, "data": "absent.csv"}, "absent.csv: there is no such file"),
        ({**CANCER, "data": "data.xlsx"}, "known endings"),
        ({**CANCER, "data": "digits_classes"}, "labels must be all in {-1, 1}"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(problem, expected):
    assert expected in refusal(**{key: value for key, value in problem.items() if value is not None})


def test_missing_target_column_is_refused(table):
    assert "no column is named 'ys'" in refusal(**{**CANCER, "data": table, "target": "ys"})
