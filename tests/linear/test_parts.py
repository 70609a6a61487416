"""Wrong objects get a typed error that names what to write, from every entry point and every noise scheme."""

import networkx
import numpy as np
import pytest

import sottovoce as sv

RING = sv.topologies.ring(4)
ATC = sv.algorithms.atc(step_size=0.1)
LAW = sv.noise.Gaussian(std=0.3)
NOISE = sv.noise.independent(LAW)
EVE = sv.observers.eavesdropper()
PROBLEM = sv.problems.linear_regression(np.ones((4, 3, 2)), np.ones((4, 3)), ridge=0.1)
CLAIM = {"rounds": 3, "sensitivity": 1.0}
SHOWN = {"delta": 0.01, "confidence": 0.9, "pairs": 100}

ENTRIES = {
    "simulate": lambda p, t, a, n, o: sv.simulate(p, t, a, n, rounds=3, progress=False),
    "expected_msd": lambda p, t, a, n, o: sv.expected_msd(p, t, a, n, rounds=3),
    "observe": lambda p, t, a, n, o: sv.observe(p, t, a, n, o, rounds=3),
    "account": lambda p, t, a, n, o: sv.account(t, a, n, o, **CLAIM),
    "account_each": lambda p, t, a, n, o: sv.accounting.account_each(t, a, n, o, **CLAIM),
    "calibrate": lambda p, t, a, n, o: sv.calibrate(t, a, n, o, epsilon=1.0, delta=1e-5, **CLAIM),
    "audit": lambda p, t, a, n, o: sv.audit(t, a, n, o, **CLAIM, **SHOWN),
}
WRONG = {
    "a law": ("n", LAW, r"noise = Gaussian\(std=0.3\); this is the law.*Write sv\.noise\.independent\(sv\.noise\.Gaussian\(std=0\.3\)\)"),
    "a scheme's name": ("n", "independent", r"noise = 'independent'; .*Write sv\.noise\.independent\(law\)"),
    "an algorithm's name": ("a", "atc", r"algorithm = 'atc'; .*Write sv\.algorithms\.atc\(step_size=\.\.\.\)"),
    "a factory": ("a", sv.algorithms.atc, r"Call it: sv\.algorithms\.atc\(step_size=\.\.\.\)"),
    "a number": ("n", 0.1, r"noise = 0\.1; needed is one of sv\.noise, such as sv\.noise\.independent\(sv\.noise\.Gaussian"),
    "a networkx graph": ("t", networkx.cycle_graph(4), r"topology = .*Write sv\.topologies\.from_networkx\(graph\)"),
    "a problem": ("t", PROBLEM, r"topology = LinearRegression; this is a problem, and topology must be.*The order is"),
    "a topology": ("a", RING, r"algorithm = Topology; this is a topology, and algorithm must be one of sv\.algorithms"),
    "nothing": ("n", None, r"noise = None; needed is .*or sv\.noise\.none\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_object_is_refused_with_what_to_write(entry, wrong):
    place, value, message = WRONG[wrong]
    parts = {"p": PROBLEM, "t": RING, "a": ATC, "n": NOISE, "o": EVE}
    with pytest.raises(sv.ConfigError, match=message) as refused:
        ENTRIES[entry](**{**parts, place: value})
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("entry", ["simulate", "expected_msd", "observe"])
def test_a_problem_of_another_kind_is_refused(entry):
    with pytest.raises(sv.ConfigError, match=r"problem = Topology; this is a topology, and problem must be one of"):
        ENTRIES[entry](RING, PROBLEM, ATC, NOISE, EVE)
    with pytest.raises(sv.ConfigError, match=r"problem = 3; needed is one of sv\.problems"):
        ENTRIES[entry](3, RING, ATC, NOISE, EVE)


def test_dicts_are_checked_entry_by_entry():
    with pytest.raises(sv.ConfigError, match=r"noise\['b'\] = Gaussian\(std=0\.3\)"):
        sv.simulate(PROBLEM, RING, ATC, {"a": NOISE, "b": LAW}, rounds=3)


def test_the_noise_that_is_played_is_checked_too():
    with pytest.raises(sv.ConfigError, match=r"noise = Gaussian\(std=0\.3\)"):
        sv.audit(RING, ATC, NOISE, EVE, played=LAW, **CLAIM, **SHOWN)


def test_right_objects_pass_everywhere():
    for entry in ENTRIES.values():
        entry(PROBLEM, RING, ATC, NOISE, EVE)


@pytest.mark.parametrize("scheme", [name for name in sv.noise.SCHEMES if name != "none"])
@pytest.mark.parametrize("wrong", [0.1, 2, None, "gaussian", sv.noise.Gaussian, NOISE])
def test_a_scheme_asks_for_a_law(scheme, wrong):
    options = {"pairwise_std": 1.0} if scheme == "gopa" else {}
    number = f"{wrong:g}" if isinstance(wrong, float | int) else "0.1"
    with pytest.raises(sv.ConfigError, match=rf"needs the law.*{scheme}\(sv\.noise\.Gaussian\(std={number}\)\)"):
        sv.noise.SCHEMES[scheme](wrong, **options)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("noises", {"one": LAW}, r"noise\['one'\] = Gaussian\(std=0\.3\); this is the law"),
        ("algorithms", {"one": "atc"}, r"algorithm\['one'\] = 'atc'; .*Write sv\.algorithms\.atc\(step_size=\.\.\.\)"),
        ("topology", networkx.cycle_graph(4), r"topology = .*Write sv\.topologies\.from_networkx\(graph\)"),
        ("problem", RING, r"problem = Topology; this is a topology"),
    ],
)
def test_comparisons_refuse_wrong_objects_too(place, value, message):
    parts = {"problem": PROBLEM, "topology": RING, "algorithms": {"one": ATC}, "noises": {"one": NOISE}}
    with pytest.raises(sv.ConfigError, match=message):
        sv.compare(
            *{**parts, place: value}.values(),
            EVE,
            rounds=3,
            sensitivity=1.0,
            epsilons=[1.0],
            delta=1e-5,
            progress=False,
        )
