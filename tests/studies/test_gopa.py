"""Studies of GOPA: the noise meets its target by another route, the measured variance is that of the noise, and a wrong scale is noticed."""

import json
import math

import mpmath
import numpy as np
import pytest
from pydantic import ValidationError

import sottovoce as sv
from sottovoce.deployment.gopa import RoundedGaussian, UniformMasks, play_blocks
from sottovoce.experiments import build, parse
from sottovoce.studies import gopa_silent, gopa_variance
from sottovoce.studies.cells import Cell, replace_key
from sottovoce.studies.kinds import KINDS, read_privacy_study, run_privacy_study
from sottovoce.studies.reproduction import outcome_figures, read_reproduction, reproduce

VARIANCE = {
    "kind": "gopa_variance", "name": "v", "parties": [40, 120], "epsilon": 0.1, "delta": 4e-7, "coordinates": 4000, "seed": 1,
    "series": {"half": {"honest": 0.5}, "all": {"honest": 1.0}, "half, silent": {"honest": 0.5, "silent": 0.1}},
}  # fmt: skip
SILENT = {
    "kind": "gopa_silent", "name": "s", "parties": 60, "honest": 0.5, "partners": 20, "slack": 0.1, "silent": [1, 10], "epsilon": 1.0,
    "delta": 1e-4, "coordinates": 4000, "seed": 2,
}  # fmt: skip


def ran(table):
    return run_privacy_study(read_privacy_study(table), {}, source="test")


def target_mu(epsilon, delta):
    """mu of the Gaussian mechanism, from its exact formula with 40 digits."""

    def excess(mu):
        first, second = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
        return mpmath.log((first - mpmath.exp(epsilon) * second) / delta)

    with mpmath.workdps(40):
        return float(mpmath.findroot(excess, (0.02, 0.03), solver="secant"))


def within(cell, errors=4.5):
    return abs(cell.value - cell.theory) <= errors * cell.error


def test_own_noise_is_the_least_for_the_honest_parties_but_for_what_is_set_aside():
    # n = 10000, rho = 1/2: 38.3606 / sqrt(5000), 38.3606 being the root of the exact formula at epsilon 0.1, delta 4e-7.
    least = 1 / (target_mu(0.1, 4e-7) * math.sqrt(5000))
    assert least == pytest.approx(0.542501, rel=1e-5)
    section = read_privacy_study(VARIANCE)
    agreed = gopa_variance.agree(section, 10_000, gopa_variance.Honesty(honest=0.5))
    assert least < agreed.own_std < 1.001 * least
    assert 0.99 * 4e-7 < agreed.delta <= 4e-7
    assert (agreed.corrupted, agreed.published) == (5000, 10_000)


def test_silent_parties_are_taken_for_honest_ones_that_left():
    section = read_privacy_study(VARIANCE)
    both = [
        gopa_variance.agree(section, 1000, gopa_variance.Honesty(honest=0.5, silent=silent)) for silent in (0.0, 0.05)
    ]
    assert both[1].published == 950
    assert (both[1].own_std / both[0].own_std) ** 2 == pytest.approx(500 / 450)
    assert both[1].partners > both[0].partners
    with pytest.raises(sv.ConfigError, match="two honest ones"):
        gopa_variance.agree(section, 40, gopa_variance.Honesty(honest=0.1, silent=0.1))


def test_partners_are_the_fewest_with_which_drawn_graphs_stay_connected():
    k, risk = gopa_variance.fewest_partners(60, 20, 22, 0.2)
    assert risk <= 0.2 < gopa_variance.fewest_partners(60, 20, 22, 1.0)[1]

    def apart(partners):
        graphs = [sv.accounting.gopa.k_out_graph(60, partners, honest_parties=20, seed=seed) for seed in range(400)]
        return float(np.mean([len(graph.sizes) > 1 for graph in graphs]))

    assert apart(k) <= 0.2 + 4 * math.sqrt(0.2 * 0.8 / 400)
    assert apart(max(k - 3, 1)) > 0.2  # the bound is not far from the truth
    with pytest.raises(sv.UnsupportedClaim, match="no number of partners"):
        gopa_variance.fewest_partners(60, 20, 22, -1.0)


def test_measured_variance_is_that_of_own_noise_and_a_wrong_scale_is_noticed(monkeypatch):
    result = ran(VARIANCE)
    table = result.cells["variance"]
    for place, n in (("40", 40), ("120", 120)):
        central = 1 / (target_mu(0.1, 4e-7) * n) ** 2
        assert table["central"][place].value == pytest.approx(central, rel=1e-9)
        assert table["local"][place].value == pytest.approx(n * central, rel=1e-9)
        expected = {"half": 2.0, "all": 1.0, "half, silent": 1 / (0.4 * 0.9)}
        for line, ratio in expected.items():
            cell = table[line][place]
            assert cell.theory / central == pytest.approx(ratio, rel=2e-3)
            assert within(cell)
            assert cell.error == pytest.approx(cell.value * math.sqrt(2 / 4000), rel=0.2)
    played = gopa_variance.played_errors
    monkeypatch.setattr(
        gopa_variance,
        "played_errors",
        lambda agreed, *rest: played(agreed._replace(own_std=agreed.own_std / 1.2), *rest),
    )
    for row in ran({**VARIANCE, "coordinates": 1000}).cells["variance"].values():
        assert all(cell.error == 0 or not within(cell) for cell in row.values())


def test_the_same_seed_gives_the_same_numbers_and_lines_are_independent():
    small = {**VARIANCE, "coordinates": 50, "series": {"a": {"honest": 0.5}, "b": {"honest": 0.5}}}
    first, second = (ran(small).cells["variance"] for _ in range(2))
    assert first["a"]["40"] == second["a"]["40"]
    assert first["a"]["40"] != first["b"]["40"]


def test_masks_that_nobody_repairs_are_in_the_average_and_repaired_ones_are_not():
    result = ran(SILENT)
    table, stds = result.cells["variance"], result.pictures
    for place, count in (("1", 1), ("10", 10)):
        repaired, left = table["repaired"][place], table["not repaired"][place]
        assert repaired.theory == pytest.approx(stds["own_std"] ** 2 / (60 - count))
        assert within(repaired)
        assert within(left)
        assert not within(Cell(value=left.value, error=left.error, theory=1.3 * left.theory))
        assert left.value > 2 * repaired.value
    masks = (table["not repaired"]["1"].theory - table["repaired"]["1"].theory) * 59**2 / stds["mask_std"] ** 2
    assert masks == pytest.approx(round(masks), abs=1e-6)  # a whole number: the degree of the silent party
    assert 20 <= round(masks) <= 59


def test_gaussian_masks_meet_the_target_for_every_honest_party_of_the_graph_that_is_played():
    section = read_privacy_study(SILENT)
    noise = gopa_silent._graph_noise(section, 77)
    block = next(
        play_blocks(
            np.zeros((60, 3), dtype=np.int64), 77, out_degree=20, own_noise=RoundedGaussian(std=5.0), masks=UniformMasks()
        )
    )  # fmt: skip
    laplacian = np.zeros((30, 30))
    for i, j in block.sources.edges:
        if i < 30 and j < 30:
            laplacian[i, i] += 1
            laplacian[j, j] += 1
            laplacian[i, j] -= 1
            laplacian[j, i] -= 1
    covariance = noise.independent_std**2 * np.eye(30) + noise.pairwise_std**2 * laplacian
    mu = math.sqrt(np.linalg.inv(covariance).diagonal().max())
    allowed = sv.accounting.gaussian.mu(1.0, 1e-4)
    assert 0.99 * allowed < mu <= allowed


@pytest.mark.parametrize(
    ("table", "change"),
    [
        (VARIANCE, {"parties": [40]}),
        (VARIANCE, {"parties": [3, 40]}),
        (VARIANCE, {"series": {}}),
        (VARIANCE, {"series": {"a": {"honest": 0.0}}}),
        (VARIANCE, {"series": {"a": {"honest": 1.1}}}),
        (VARIANCE, {"series": {"a": {"honest": 0.5, "silent": 1.0}}}),
        (VARIANCE, {"delta": 1.0}),
        (VARIANCE, {"coordinates": 1}),
        (SILENT, {"silent": [1, 31]}),
        (SILENT, {"partners": 60}),
        (SILENT, {"slack": 0.0}),
        (SILENT, {"epsilon": math.inf}),
    ],
)
def test_settings_outside_what_is_stated_are_refused(table, change):
    with pytest.raises(ValidationError):
        read_privacy_study({**table, **change})


def test_figures_say_observer_target_and_what_is_measured(tmp_path):
    for table, words in ((VARIANCE, "rho"), (SILENT, "Gaussian masks")):
        result = ran({**table, "coordinates": 40})
        paths = KINDS[table["kind"]].draw(result, tmp_path, "A document")
        assert {path.suffix for path in paths} == {".png", ".svg"}
        text = paths[1].read_text()
        assert all(each in text for each in ("Observer", "guarantee", "measured", "epsilon", words))


def test_the_variance_reproduction_keeps_its_verdicts_when_shrunken(tmp_path):
    changes = [
        "variance.parties=[100, 300]", "variance.coordinates=2500", "silent.parties=400", "silent.coordinates=1000",
        "silent.silent=[1, 150]",
    ]  # fmt: skip
    outcome = reproduce(read_reproduction("sabater2022-variance", changes))
    verdicts = {each.claim.id: each for each in outcome.verdicts}
    for name in ("thousands-of-times-below-local", "unrepaired-is-still-below-local"):
        found = verdicts.pop(name)
        assert found.where == (() if name.startswith("thousands") else ("1",))
    assert {name for name, found in verdicts.items() if found.verdict != "holds"} == {
        "partners-grow-with-the-logarithm"
    }
    assert verdicts["half-honest-costs-twice"].exact["300"] == pytest.approx(2.0, rel=2e-3)
    assert {path.stem for path in outcome_figures(outcome, tmp_path)} == {"variance", "silent"}


class TestLearning:
    """Noise in the average is that of a trusted server times 1 / sqrt(rho); what was stored agrees with that."""

    @pytest.fixture
    def found(self):
        return read_reproduction("sabater2022-learning")

    def scale(self, found, line, epsilon):
        data = json.loads(json.dumps(found.base))
        for key, value in found.studies[0].changes(line, epsilon).items():
            replace_key(data, key, value)
        return build(parse(data, source="test")).noise.law.std

    def test_noise_in_the_average_is_that_of_a_trusted_server_over_the_root_of_rho(self, found):
        for epsilon in ("0.25", "8"):
            central = self.scale(found, "central noise", epsilon)
            for rho in (1.0, 0.5, 0.25):
                in_average = self.scale(found, f"gopa, rho = {rho:g}", epsilon) / math.sqrt(400)
                assert in_average * math.sqrt(rho) == pytest.approx(central, rel=0.01)
            assert self.scale(found, "local noise", epsilon) / math.sqrt(400) == pytest.approx(20 * central, rel=0.01)
            silent = self.scale(found, "gopa, rho = 0.5, a tenth silent", epsilon) / math.sqrt(400)
            assert silent * math.sqrt(140 / 400) == pytest.approx(central, rel=0.01)  # 340 publish, 200 collude

    def test_a_bad_graph_is_far_less_likely_than_delta(self, found):
        risk = max(sv.accounting.gopa.disconnection(400, honest, 60) for honest in range(100, 401))
        assert 20 * risk < 1e-5 * 1e-4

    def test_a_quarter_honest_learns_like_a_trusted_server_with_half_the_epsilon(self, found):
        stored = json.loads((found.folder / "expected.json").read_text())["cells"]["learning"]["test_error"]
        for epsilon in ("0.5", "1", "2", "4", "8"):
            half = stored["central noise"][f"{float(epsilon) / 2:g}"]
            # Standard errors are at most 0.008 on either side; the full epsilon is 30 % to 40 % away where noise matters.
            assert stored["gopa, rho = 0.25"][epsilon] == pytest.approx(half, rel=0.06)
        assert stored["gopa, rho = 0.25"]["0.5"] > 1.3 * stored["central noise"]["0.5"]
