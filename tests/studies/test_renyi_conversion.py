"""From Gaussian noise to epsilon, by a Renyi bound and exactly: the numbers of DECOR's ring, recomputed without the accountant."""

import math

import numpy as np
import pytest

from sottovoce.accounting import gaussian
from sottovoce.studies import renyi_conversion
from sottovoce.studies.kinds import KINDS, read_privacy_study, run_privacy_study
from sottovoce.studies.reproduction import read_reproduction

RING = {
    "kind": "decor_row", "name": "r", "agents": 16, "std": 17.827099282407094, "pairwise_std": 188.0, "clip": 1.0, "rounds": [1, 3500],
    "delta": 1e-5, "published_loss": 0.0004656256603611915,
}  # fmt: skip
CONVERSION = {"kind": "renyi_conversion", "name": "c", "epsilons": [1, 10, 40], "delta": 1e-5}
PUBLISHED, PROVEN = "published, Renyi conversion", "proven, exact"


def values(table):
    result = run_privacy_study(read_privacy_study(table), {}, source="test")
    cells = result.cells.items()
    return result, {m: {line: [c.value for c in row.values()] for line, row in rows.items()} for m, rows in cells}


def test_the_loss_of_a_round_is_that_of_the_eigenvalues_of_the_ring_and_the_printed_one():
    """[Sigma^-1]_pp of a ring is the mean over frequencies of 1 / (std^2 + pairwise_std^2 (2 - 2 cos))."""
    _, found = values(RING)
    spectrum = RING["std"] ** 2 + RING["pairwise_std"] ** 2 * (2 - 2 * np.cos(2 * np.pi * np.arange(16) / 16))
    assert found["loss"][PROVEN][0] == pytest.approx(2 * np.mean(1 / spectrum), rel=1e-12)
    assert found["loss"][PROVEN][0] == pytest.approx(RING["published_loss"], rel=1e-12)


def test_the_printed_epsilon_is_10_2928_for_a_true_8_81893():
    _, found = values(RING)
    assert found["epsilon"][PUBLISHED][1] == pytest.approx(10.2928, abs=5e-5)
    assert found["epsilon"][PROVEN][1] == pytest.approx(8.81893, abs=5e-6)


def test_other_noise_gives_another_loss():
    """Power: with a ninth less own noise the two lines part."""
    _, found = values({**RING, "std": RING["std"] * 0.9})
    assert found["loss"][PROVEN][0] > 1.1 * found["loss"][PUBLISHED][0]


def test_the_conversion_wastes_the_variance_that_it_was_found_to_waste():
    _, found = values(CONVERSION)
    wasted = np.divide(found["variance"][PUBLISHED], found["variance"][PROVEN])
    assert wasted == pytest.approx([1.73, 1.29, 1.14], abs=0.005)
    assert found["mu"][PUBLISHED][1] == pytest.approx(1.76088, abs=5e-6)
    assert found["true_epsilon"][PUBLISHED][1] == pytest.approx(8.5552, abs=5e-5)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 10.0, 200.0])
def test_conversion_and_its_inverse_agree_and_the_best_order_is_taken(epsilon):
    loss = renyi_conversion.converted_loss(epsilon, 1e-5)
    assert renyi_conversion.converted_epsilon(loss, 1e-5) == pytest.approx(epsilon, rel=1e-12)
    best = 1 + math.sqrt(math.log(1e5) / loss)
    orders = best * np.array([0.999, 1.0, 1.001])
    searched = orders * loss + math.log(1e5) / (orders - 1)
    assert min(searched) == pytest.approx(epsilon, rel=1e-9)
    assert searched[1] == min(searched)


def test_the_bound_is_never_below_the_exact_epsilon():
    for mu in np.geomspace(1e-3, 30, 40):
        assert renyi_conversion.converted_epsilon(mu**2 / 2, 1e-5) > gaussian.epsilon(float(mu), 1e-5)


def test_pictures_say_observer_and_source(tmp_path):
    for table in (RING, CONVERSION):
        result, _ = values(table)
        paths = KINDS[table["kind"]].draw(result, tmp_path, "A document")
        assert [path.suffix for path in paths] == [".png", ".svg"]
        assert "Observer" in paths[1].read_text()


def test_the_stored_row_is_the_one_of_this_test():
    stored = read_reproduction("decor-conversion").privacy_studies[0].model_dump()
    assert {key: stored[key] for key in RING if key not in ("name", "rounds")} == {
        key: value for key, value in RING.items() if key not in ("name", "rounds")
    }
