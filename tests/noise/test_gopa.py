"""Pairwise noise with own noise: the map by hand, what the centroid gets, and runs against exact theory."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import sottovoce as sv
from simulation.reference import run as reference_run
from sottovoce.cli import app
from sottovoce.noise import (
    bind,
    cancels_at_receivers,
    cancels_in_centroid,
    gopa,
    own_copy_is_the_message,
    received_map,
)

STD, PAIRWISE = 0.5, 2.0
NOISE = gopa(sv.noise.Gaussian(std=STD), pairwise_std=PAIRWISE)
RATIO = PAIRWISE / STD


def dense_maps(noise_map, links):
    """(link map [E, S], self map [K, S]) written out."""
    carried = np.zeros((len(links.senders), noise_map.num_sources))
    np.add.at(carried, (noise_map.link_index, noise_map.link_source), np.asarray(noise_map.link_value))
    kept = np.zeros((len(links.perron), noise_map.num_sources))
    np.add.at(kept, (noise_map.self_index, noise_map.self_source), np.asarray(noise_map.self_value))
    return carried, kept


def written_out(adjacency, ratio):
    """What every agent adds, [K, P + K], pair by pair: sources of the pairs in lexicographic order, then the own ones."""
    num_agents = len(adjacency)
    pairs = [(i, j) for i in range(num_agents) for j in range(i + 1, num_agents) if adjacency[i, j]]
    rows = np.zeros((num_agents, len(pairs) + num_agents))
    for s, (i, j) in enumerate(pairs):
        rows[i, s], rows[j, s] = ratio, -ratio
    rows[:, len(pairs) :] = np.diag(adjacency.any(axis=1).astype(float))
    return rows, pairs


def random_two_way_matrix(num_agents, seed):
    """Non-symmetric weights on a connected graph in which every link has its opposite."""
    generator = np.random.default_rng(seed)
    support = generator.random((num_agents, num_agents)) < 0.4
    support = support | support.T | np.roll(np.eye(num_agents, dtype=bool), 1, axis=0)
    support = support | support.T | np.eye(num_agents, dtype=bool)
    matrix = support * (generator.random((num_agents, num_agents)) + 0.1)
    return matrix / matrix.sum(axis=0)


class TestMap:
    def test_path_of_three_by_hand(self):
        links = sv.topologies.path(3).active_links()
        noise_map = bind(NOISE, links)
        carried, kept = dense_maps(noise_map, links)
        r = RATIO
        # Sources: pair (0, 1), pair (1, 2), own of 0, 1, 2; the lower agent of a pair adds, the higher subtracts.
        expected = np.array([[r, 0, 1, 0, 0], [-r, r, 0, 1, 0], [0, -r, 0, 0, 1]])
        np.testing.assert_array_equal(kept, expected)
        np.testing.assert_array_equal(carried, expected[links.senders])
        np.testing.assert_array_equal(noise_map.owners, [[0, 1], [1, 2], [0, -1], [1, -1], [2, -1]])

    @given(st.integers(3, 9), st.integers(0, 10_000))
    def test_every_link_and_the_own_copy_of_an_agent_carry_the_same_on_any_two_way_graph(self, num_agents, seed):
        topology = sv.topologies.from_matrix(random_two_way_matrix(num_agents, seed))
        links = topology.active_links()
        noise_map = bind(NOISE, links)
        carried, kept = dense_maps(noise_map, links)
        rows, pairs = written_out((topology.matrix > 0) & ~np.eye(num_agents, dtype=bool), RATIO)
        np.testing.assert_array_equal(kept, rows)
        np.testing.assert_array_equal(carried, rows[links.senders])
        np.testing.assert_array_equal(noise_map.owners[: len(pairs)], pairs)
        assert own_copy_is_the_message(noise_map, links)

    def test_covariance_of_what_agents_add_is_own_variance_plus_the_laplacian(self):
        topology = sv.topologies.erdos_renyi(12, 0.4, seed=1)
        _, kept = dense_maps(bind(NOISE, topology.active_links()), topology.active_links())
        adjacency = ((topology.matrix > 0) & ~np.eye(12, dtype=bool)).astype(float)
        laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
        np.testing.assert_allclose(STD**2 * kept @ kept.T, STD**2 * np.eye(12) + PAIRWISE**2 * laplacian, atol=1e-12)

    def test_scaling_multiplies_own_and_pair_noise_alike(self):
        scaled, links = NOISE.scaled(3.0), sv.topologies.ring(5).active_links()
        _, kept = dense_maps(bind(scaled, links), links)
        stds = scaled.law.std * np.abs(kept).max(axis=0)
        np.testing.assert_allclose(stds, [3 * PAIRWISE] * 5 + [3 * STD] * 5)
        assert scaled.describe()["pairwise_ratio"] == RATIO


class TestPublishedNumbers:
    """What an eavesdropper on all links learns in one round, straight from the map: mu^2 = Delta^2 [Sigma^-1]_pp."""

    @staticmethod
    def exposure(noise, topology, agent, corrupted=()):
        links = topology.active_links()
        noise_map = bind(noise, links)
        _, kept = dense_maps(noise_map, links)
        hidden = ~np.isin(noise_map.owners, list(corrupted)).any(axis=1)
        honest = [k for k in range(topology.num_agents) if k not in corrupted]
        rows = noise.law.std * kept[honest][:, hidden]
        return float(np.linalg.inv(rows @ rows.T)[honest.index(agent), honest.index(agent)])

    DECOR = gopa(sv.noise.Gaussian(std=17.827099282407094), pairwise_std=188)

    # Allouah et al. 2024, columns sigma, sigma_cor and eps_iter (Renyi divergence per order, 2 C^2 [Sigma^-1]_pp with C = 1) of
    # quadratics_for_n_16/numerical_results_for_n_16_and_clip_1/result_gridsearch_ring_Corr_epsilon_10.csv in
    # github.com/elfirdoussilab1/DECOR at e1fe958.
    @pytest.mark.parametrize(
        ("std", "pairwise_std", "divergence"),
        [
            (17.827099282407094, 188.0, 0.0004656256603611915),
            (18.855585779469042, 126.0, 0.0005042182991847745),
            (19.88407227653099, 126.0, 0.0004673573255629589),
            (20.912558773592938, 94.0, 0.0005354197027949463),
            (22.96953176771683, 94.0, 0.0004787248702487594),
        ],
    )
    def test_decor_on_a_ring_of_sixteen(self, std, pairwise_std, divergence):
        noise = gopa(sv.noise.Gaussian(std=std), pairwise_std=pairwise_std)
        assert 2 * self.exposure(noise, sv.topologies.ring(16), 0) == pytest.approx(divergence, rel=1e-12)

    @pytest.mark.parametrize(("corrupted", "mu"), [((), 0.0152582), ((1,), 0.0179301), ((8,), 0.0156139)])
    def test_a_corrupted_agent_takes_its_pairs_noise_away(self, corrupted, mu):
        """Inverse of the honest ring's (a path's) std^2 I + pairwise_std^2 L, computed apart from the map."""
        assert math.sqrt(self.exposure(self.DECOR, sv.topologies.ring(16), 0, corrupted)) == pytest.approx(mu, rel=4e-6)
        adjacency = np.roll(np.eye(16), 1, axis=0) + np.roll(np.eye(16), -1, axis=0)
        honest = [k for k in range(16) if k not in corrupted]
        adjacency = adjacency[np.ix_(honest, honest)]
        sigma = 17.827099282407094**2 * np.eye(len(honest)) + 188**2 * (np.diag(adjacency.sum(axis=0)) - adjacency)
        assert self.exposure(self.DECOR, sv.topologies.ring(16), 0, corrupted) == pytest.approx(
            np.linalg.inv(sigma)[0, 0], rel=1e-9
        )

    def test_complete_graph_has_a_closed_form(self):
        n, std, pairwise = 16, 1.0, 5.0
        noise = gopa(sv.noise.Gaussian(std=std), pairwise_std=pairwise)
        closed = 1 / (n * std**2) + (1 - 1 / n) / (std**2 + n * pairwise**2)
        assert self.exposure(noise, sv.topologies.complete(n), 3) == pytest.approx(closed, rel=1e-12)
        assert math.sqrt(closed) == pytest.approx(0.254633, rel=2e-6)


class TestCentroid:
    def test_doubly_stochastic_weights_pass_on_the_average_of_the_own_sources_and_nothing_else(self):
        topology = sv.topologies.erdos_renyi(10, 0.4, seed=2)
        assert topology.is_doubly_stochastic
        links = topology.active_links()
        received = links.perron @ received_map(bind(NOISE, links), links).toarray()
        np.testing.assert_allclose(received, [0.0] * topology.num_pairs + [0.1] * 10, atol=1e-14)

    @given(st.integers(3, 8), st.integers(0, 10_000))
    def test_elsewhere_a_pair_leaves_the_difference_of_its_centroid_weights(self, num_agents, seed):
        topology = sv.topologies.from_matrix(random_two_way_matrix(num_agents, seed))
        links, q = topology.active_links(), topology.perron
        received = q @ received_map(bind(NOISE, links), links).toarray()
        expected = [RATIO * (q[i] - q[j]) for i, j in topology.pairs] + list(q)
        np.testing.assert_allclose(received, expected, atol=1e-12)

    def test_nothing_is_promised_since_own_noise_does_not_cancel(self):
        links = sv.topologies.ring(5).active_links()
        noise_map = bind(NOISE, links)
        assert NOISE.promises == ()
        assert not cancels_in_centroid(noise_map, links)
        assert not cancels_at_receivers(noise_map, links)


class TestActiveLinks:
    def test_a_dropped_pair_shares_nothing_and_a_silent_agent_adds_nothing(self):
        topology = sv.topologies.path(4)
        links = topology.dropped(np.array([True, True, False]))  # pair (2, 3) is silent
        noise_map = bind(NOISE, links)
        carried, kept = dense_maps(noise_map, links)
        r = RATIO
        expected = np.array(
            [[r, 0, 0, 1, 0, 0, 0], [-r, r, 0, 0, 1, 0, 0], [0, -r, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0]]
        )
        np.testing.assert_array_equal(kept, expected)
        active = links.weights > 0
        np.testing.assert_array_equal(carried[active], expected[links.senders[active]])
        assert own_copy_is_the_message(noise_map, links)

    def test_a_random_pair_shares_noise_and_all_others_add_nothing(self):
        topology = sv.topologies.ring(5).with_random_pair()
        links = topology.paired(2)
        _, kept = dense_maps(bind(NOISE, links), links)
        expected = np.zeros((5, 10))
        (low, high) = topology.pairs[2]
        expected[low, 2], expected[high, 2] = RATIO, -RATIO
        expected[low, 5 + low] = expected[high, 5 + high] = 1.0
        np.testing.assert_array_equal(kept, expected)

    def test_a_pair_heard_one_way_in_a_round_shares_nothing_in_it(self):
        ring = sv.topologies.ring(4)
        one_way = (np.eye(4) + np.roll(np.eye(4), 1, axis=0)) / 2  # doubly stochastic: k hears k + 1 only
        first, second = (part.active_links() for part in ring.with_schedule([ring, one_way]).listed())
        _, kept = dense_maps(bind(NOISE, second), second)
        np.testing.assert_array_equal(kept, np.concatenate([np.zeros((4, 4)), np.eye(4)], axis=1))
        assert dense_maps(bind(NOISE, first), first)[1][:, :4].any()

    def test_weights_known_only_inside_a_compiled_round_give_the_same_map(self):
        topology = sv.topologies.erdos_renyi(8, 0.5, seed=4)
        full = topology.active_links()

        @jax.jit
        def values(weights, own):
            spread = NOISE.spread(full._replace(weights=weights, self_weights=own))
            return spread.link_value, spread.self_value

        for seed in range(5):
            kept = np.random.default_rng(seed).random(topology.num_pairs) < 0.4
            links = topology.dropped(kept)
            expected = bind(NOISE, links)
            with jax.enable_x64(True):
                on_links, on_own = values(jnp.asarray(links.weights), jnp.asarray(links.self_weights))
            np.testing.assert_array_equal(np.asarray(on_links), expected.link_value)
            np.testing.assert_array_equal(np.asarray(on_own), expected.self_value)


class TestRefusals:
    @pytest.mark.parametrize("value", [0, 0.0, -1.0, math.inf, math.nan, True, "0.1", None, np.bool_(True)])
    def test_a_pair_deviation_that_is_no_positive_number(self, value):
        with pytest.raises(sv.ConfigError, match="pairwise_std"):
            gopa(sv.noise.Gaussian(std=1.0), pairwise_std=value)

    def test_deviations_whose_ratio_is_out_of_range(self):
        with pytest.raises(sv.ConfigError, match="ratio"):
            gopa(sv.noise.Gaussian(std=1e-200), pairwise_std=1e200)

    def test_there_is_no_default(self):
        with pytest.raises(TypeError, match="pairwise_std"):
            gopa(sv.noise.Gaussian(std=1.0))

    def test_the_spherical_law(self):
        with pytest.raises(sv.IncompatibleChoice, match="L2Laplace"):
            gopa(sv.noise.L2Laplace(scale=1.0), pairwise_std=1.0)

    def test_a_link_without_its_opposite_is_named(self):
        matrix = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])  # 0 -> 1 -> 2 -> 0
        with pytest.raises(sv.IncompatibleChoice, match=r"link 2 -> 0 has no opposite.*Add the link 0 -> 2"):
            bind(NOISE, sv.topologies.from_matrix(matrix).active_links())

    def test_a_map_too_large_to_hold(self):
        with pytest.raises(sv.IncompatibleChoice, match="limit"):
            bind(NOISE, sv.topologies.complete(400).active_links())


@pytest.fixture(scope="module")
def means():
    return sv.problems.mean_estimation(np.random.default_rng(0).uniform(-1, 1, size=(6, 4, 2)), radius=1.0)


NETWORKS = {
    "ring": sv.topologies.ring(6),
    "unequal weights": sv.topologies.star(6, weights="uniform"),
    "drop-outs": sv.topologies.complete(6).with_dropout(0.5),
    "random pair": sv.topologies.ring(6).with_random_pair(),
    "listed": sv.topologies.ring(6).with_schedule([sv.topologies.ring(6), sv.topologies.grid(2, 3)]),
    "federation": sv.topologies.federation(6, "records", records=[1, 2, 3, 4, 5, 6]),
}


class TestSimulation:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_runs_equal_a_link_by_link_loop_on_every_kind_of_network(self, means, name):
        schemes = {
            "pairs": gopa(sv.noise.Laplace(std=0.3), pairwise_std=0.7).scaled(lambda t: 1 / t),
            "none": sv.noise.none(),
        }
        runs = sv.simulate(
            means, NETWORKS[name], sv.algorithms.atc(step_size=0.2), schemes, rounds=4, repeats=2, seed=3,
            dtype="float64", record=("msd_average",), progress=False,
        )  # fmt: skip
        found = runs["atc", "pairs"].models
        assert np.abs(found - runs["atc", "none"].models).max() > 0.05
        with jax.enable_x64(True):
            for repeat in range(2):
                expected = reference_run(
                    means, NETWORKS[name], "atc", 0.2, schemes["pairs"], rounds=4, seed=3, repeat=repeat,
                    batch_size=None,
                )  # fmt: skip
                np.testing.assert_allclose(found[repeat], expected[-1], atol=1e-12)

    def test_agreement_with_theory_notices_either_deviation_wrong_by_five_per_cent(self, means):
        """4000 repeats, mean over rounds 20 to 40: four standard errors, about 1 % of either error."""
        topology, algorithm = sv.topologies.ring(6), sv.algorithms.atc(step_size=0.2)

        def exact(std, pairwise):
            noise = gopa(sv.noise.Gaussian(std=std), pairwise_std=pairwise)
            curves = sv.expected_msd(means, topology, algorithm, noise, rounds=40)
            return {metric: curve[20:].mean() for metric, curve in curves.items()}

        run = sv.simulate(
            means, topology, algorithm, gopa(sv.noise.Gaussian(std=0.4), pairwise_std=1.0), rounds=40, repeats=4000,
            seed=7, dtype="float64", record=("msd_centroid", "msd_average"), progress=False,
        )  # fmt: skip
        samples = {metric: values[:, 20:].mean(axis=1) for metric, values in run.metrics.items()}

        def distance(metric, truth):
            values = samples[metric]
            return abs(values.mean() - truth[metric]) / (values.std(ddof=1) / math.sqrt(len(values)))

        for metric in samples:
            assert distance(metric, exact(0.4, 1.0)) < 4, metric
        assert distance("msd_centroid", exact(0.42, 1.0)) > 4
        assert distance("msd_average", exact(0.4, 1.05)) > 4
        # The pairs' noise does not reach the centroid: there its size makes no difference.
        assert exact(0.4, 9.0)["msd_centroid"] == pytest.approx(exact(0.4, 1.0)["msd_centroid"], rel=1e-9)

    def test_received_covariance_in_theory_is_that_of_the_weighted_laplacian(self):
        topology = sv.topologies.from_matrix(random_two_way_matrix(7, 5))
        links, A = topology.active_links(), topology.matrix
        combined = received_map(bind(NOISE, links), links)
        adjacency = ((A > 0) & ~np.eye(7, dtype=bool)).astype(float)
        sent = STD**2 * np.eye(7) + PAIRWISE**2 * (np.diag(adjacency.sum(axis=0)) - adjacency)
        np.testing.assert_allclose(STD**2 * (combined @ combined.T).toarray(), A.T @ sent @ A, atol=1e-12)

    def test_one_average_over_a_uniform_federation_has_the_variance_of_averaged_own_noise(self, means):
        """GOPA's purpose: std^2 / n per coordinate, however large the pairs' noise. 10 000 averages of two coordinates."""
        noise = gopa(sv.noise.Gaussian(std=0.3), pairwise_std=50.0)
        step = 1.0 / means.constants.smoothness  # a full step: every agent sends its own mean
        run = sv.simulate(
            means, sv.topologies.federation(6), sv.algorithms.atc(step_size=step), noise, rounds=1, repeats=10_000,
            dtype="float64", record=("msd_centroid",), progress=False,
        )  # fmt: skip
        np.testing.assert_allclose(run.models, run.models[:, :1].repeat(6, axis=1), atol=1e-11)
        error = run.models[:, 0] - means.optimum
        assert np.abs(error.mean(axis=0)).max() < 5 * 0.3 / math.sqrt(6 * 10_000)

        def distance(std):
            return abs((error**2).mean() / (std**2 / 6) - 1) / math.sqrt(2 / error.size)

        assert distance(0.3) < 4
        assert distance(0.3 * 1.05) > 6

    def test_two_stage_descent_accepts_it_and_averages_what_was_sent(self, means):
        algorithm = sv.algorithms.dgd(step_size=0.5, gradient_rounds=2)
        run = sv.simulate(
            means, sv.topologies.ring(6), algorithm, NOISE, rounds=300, repeats=1, dtype="float64", progress=False
        )
        center = run.models[0].mean(axis=0)
        np.testing.assert_allclose(run.models[0], np.tile(center, (6, 1)), atol=1e-9)


CONFIG = """
[experiment]
name = "pairs"
rounds = 4
dtype = "float64"
[topology]
kind = "ring"
agents = 4
[problem]
kind = "linear_regression"
data = "synthetic"
samples = 6
dimension = 2
ridge = 0.1
[algorithm]
kind = "atc"
step_size = 0.1
[noise]
kind = "gopa"
law = "gaussian"
std = 0.1
pairwise_std = 0.5
"""


class TestConfiguration:
    @pytest.fixture
    def run(self, tmp_path):
        (tmp_path / "pairs.toml").write_text(CONFIG)

        def invoke(*overrides):
            arguments = ["run", str(tmp_path / "pairs.toml"), *overrides, "--json", "--out", str(tmp_path / "out")]
            return CliRunner().invoke(app, arguments)

        return invoke

    def test_a_file_runs_with_its_two_deviations(self, run, tmp_path):
        result = run()
        assert result.exit_code == 0, result.stderr
        saved = sv.load(tmp_path / "out")
        assert saved.description["noise"] == {"name": "gopa", "law": "Gaussian", "scale": 0.1, "pairwise_ratio": 5.0}
        same = sv.simulate(
            sv.problems.linear_regression(
                *sv.problems.synthetic_regression(num_agents=4, samples=6, dimension=2, seed=0)[:2], ridge=0.1
            ),
            sv.topologies.ring(4),
            sv.algorithms.atc(step_size=0.1),
            gopa(sv.noise.Gaussian(std=0.1), pairwise_std=0.5),
            rounds=4,
            dtype="float64",
            progress=False,
        )
        np.testing.assert_array_equal(saved.models, same.models)

    @pytest.mark.parametrize(
        ("override", "expected"),
        [
            ("noise.pairwise_stdd=1.0", "did you mean 'pairwise_std'?"),
            ("noise.per_edge=true", "does not apply to kind = 'gopa', only to independent"),
            ("noise.pairwise_std=0", "greater than 0"),
            ("noise.pairwise_std=inf", "finite"),
            ("noise.pairwise_std=true", "pairwise_std"),
            ("noise={kind='gopa', law='gaussian', std=0.1}", "pairwise_std: this key is missing"),
            ("noise={kind='gopa', law='gaussian', pairwise_std=0.1}", "needs std"),
            ("noise={kind='gopa', law='l2_laplace', scale=0.1, pairwise_std=0.1}", "L2Laplace"),
            (
                "noise={kind='independent', law='gaussian', std=0.1, pairwise_std=0.1}",
                "does not apply to kind = 'independent', only to gopa",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused(self, run, override, expected):
        result = run(override)
        assert result.exit_code == 2
        assert expected in " ".join(result.stderr.split())
