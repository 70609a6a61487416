"""Parties of a file that go on without one of them: what it costs is what was reserved, or they stop."""

import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from experiments.parties import HOSPITALS, config, write_files
from sottovoce.cli.party_status import party_status
from sottovoce.deployment.identity import Roster, new_identity
from sottovoce.deployment.ledger import Ledger, create_ledger
from sottovoce.deployment.party import Place, RunEnded
from sottovoce.deployment.privacy import Cost
from sottovoce.deployment.store import Store
from sottovoce.deployment.transports import MemoryNetwork
from sottovoce.errors import BudgetExhausted, ConfigError, IncompatibleChoice
from sottovoce.experiments import prepare_joining, take_part
from sottovoce.experiments.lost_parties import Stage

EXCLUDE = {"lost_neighbour": "exclude", "minimum_agents": 2, "exclude_after": 1, "time_limit": 30}
FEDERATION = {"topology": {"kind": "federation"}, "algorithm": {"kind": "fedavg"}}


class Killed(Exception):
    """The end of a process."""


@pytest.fixture
def hospitals(tmp_path):
    """Three hospitals, perhaps with a relay, that talk through memory, each in a thread of its own."""
    tmp_path.chmod(0o700)
    return Hospitals(tmp_path)


class Hospitals:
    def __init__(self, folder) -> None:
        self.folder, self.files = folder, write_files(folder)
        self.ended: dict[str, object] = {}

    def prepare(self, relay: bool = False, **changes):
        names = (*HOSPITALS, "relay") if relay else HOSPITALS
        self.names, self.network = names, MemoryNetwork(names)
        self.identities = {
            name: new_identity(
                name, self.folder / name, f"127.0.0.1:{7400 + k}", role="relay" if name == "relay" else "agent"
            )
            for k, name in enumerate(names)
        }
        self.roster = Roster.of([identity.entry() for identity in self.identities.values()])
        file = config(**changes)
        self.joining = {
            name: prepare_joining(file, self.roster, name, None if name == "relay" else self.files[name])
            for name in names
        }
        for name in names:
            create_ledger(
                self.store(name), name=name, unit="record", adjacency="replace", delta=1e-5, budget="unlimited"
            )

    def store(self, name: str):
        return self.folder / f"{name}.ledger"

    def play(self, lost: str, commits: int) -> None:
        """Let all take part; one is killed after so many commits, and does not come back."""
        threads = [threading.Thread(target=self._party, args=(name, lost, commits)) for name in self.names]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
            assert not each.is_alive()

    def _party(self, name: str, lost: str, commits: int) -> None:
        left = [commits]

        def moment(what: str) -> None:
            left[0] -= what == "after commit"
            if name == lost and left[0] == 0:
                raise Killed

        try:
            with Store.open(self.store(name)) as store:
                place = Place(
                    identity=self.identities[name],
                    roster=self.roster,
                    store=store,
                    transport=self.network.transport(name),
                    folder=self.folder / name,
                )
                data = None if name == "relay" else self.files[name]
                self.ended[name] = take_part(self.joining[name], place, data=data, moment=moment)
        except Exception as error:
            self.ended[name] = error


def test_two_hospitals_go_on_without_the_third_and_spend_what_was_reserved(hospitals, capsys) -> None:
    hospitals.prepare(deployment=EXCLUDE, experiment={"rounds": 6})
    hospitals.play("chur", 2)
    assert isinstance(hospitals.ended["chur"], Killed)
    for name in ("basel", "bern"):
        assert np.isfinite(hospitals.ended[name].model).all(), hospitals.ended
        with Store.open(hospitals.store(name)) as store:
            ledger = Ledger(store)
            (reserved,) = ledger.standing().values()
            assert len(store.runs()) == 2
            assert ledger.totals().spent == pytest.approx(ledger.totals().reserved, rel=1e-7)
            assert reserved.cost == hospitals.joining[name].deployed.cost
            went_on = store.runs()[-1].digest.hex()
        party_status(hospitals.folder / name, as_json=True)
        told = json.loads(capsys.readouterr().out)["ledger"]
        assert told["digest"] == went_on
        assert told["spent_meter"] == pytest.approx(told["reserved"], rel=1e-6)
        # Given again, the command reads the model back.
        again = Hospitals.__new__(Hospitals)
        again.__dict__ |= hospitals.__dict__ | {"ended": {}}
        again._party(name, "nobody", 0)
        np.testing.assert_array_equal(again.ended[name].model, hospitals.ended[name].model)


def test_more_than_was_reserved_is_not_spent(hospitals, monkeypatch) -> None:
    """No run that may go on costs more with fewer; had less been reserved, all would stop, and nothing more would be sent."""
    hospitals.prepare(deployment=EXCLUDE | {"time_limit": 4})
    began = Stage.of
    monkeypatch.setattr(Stage, "of", staticmethod(lambda *given: with_less_reserved(began(*given))))
    hospitals.play("chur", 2)
    for name in ("basel", "bern"):
        assert isinstance(hospitals.ended[name], BudgetExhausted), hospitals.ended[name]
        assert "was reserved" in str(hospitals.ended[name])
        with Store.open(hospitals.store(name)) as store:
            (run,) = store.runs()
            assert run.position <= 2


def with_less_reserved(stage: Stage) -> Stage:
    return replace(stage, reserved=stage.costs._replace(gradients=0.9 * stage.costs.gradients))


def test_own_noise_costs_the_same_with_fewer_behind_a_relay(hospitals) -> None:
    hospitals.prepare(relay=True, **FEDERATION, deployment=EXCLUDE)
    hospitals.play("chur", 2)
    for name in ("basel", "bern"):
        assert np.isfinite(hospitals.ended[name].model).all(), hospitals.ended
    np.testing.assert_array_equal(hospitals.ended["basel"].model, hospitals.ended["bern"].model)


def test_a_run_that_stops_is_over_for_good(hospitals) -> None:
    hospitals.prepare(deployment={"lost_neighbour": "stop", "time_limit": 2})
    hospitals.play("chur", 2)
    for name in ("basel", "bern"):
        assert isinstance(hospitals.ended[name], RunEnded), hospitals.ended[name]
        with Store.open(hospitals.store(name)) as store:
            (run,) = store.runs()
            assert (run.status, run.run_key) == ("closed", None)
            assert store.outgoing(run.digest) == []
            assert len(Ledger(store).standing()) == 1
        hospitals._party(name, "nobody", 0)
        assert "was erased" in str(hospitals.ended[name])


@pytest.mark.parametrize(
    ("changes", "refused", "said"),
    [
        ({"noise": {"kind": "graph_homomorphic"}}, IncompatibleChoice, "would never be cancelled"),
        ({"noise": {"self_noise": False}, "privacy": {"unit": "agent"}}, IncompatibleChoice, "pile up"),
        ({"deployment": EXCLUDE | {"minimum_agents": 1}}, ConfigError, "more than half"),
        (
            {
                **FEDERATION,
                "noise": {"kind": "central"},
                "deployment": EXCLUDE | {"relay": "trusted"},
            },
            IncompatibleChoice,
            "counts for more than was reserved",
        ),
    ],
)
def test_what_is_not_proved_without_the_lost_cannot_be_agreed_on(hospitals, changes, refused, said) -> None:
    agreed = {"deployment": EXCLUDE} | changes
    if changes.get("privacy"):
        agreed["deployment"] = EXCLUDE | {"records": None}
        agreed["privacy"] = {"unit": "agent", "clips": "gradient"}
    with pytest.raises(refused, match=said):
        hospitals.prepare(relay="topology" in changes, **agreed)


def test_a_stage_charges_rounds_begun_with_the_lost_as_they_were_and_later_ones_anew(hospitals) -> None:
    hospitals.prepare(deployment=EXCLUDE)
    joining = hospitals.joining["basel"]
    stage = Stage.of(joining.agreement, joining.parts, joining.deployed)
    without = {"lost": frozenset({"chur"}), "after": 1, "committed": 1, "name": "basel", "problem": joining.problem}
    dear = stage.costs._replace(gradients=4 * stage.costs.gradients)
    made = replace(stage, costs=dear, reserved=dear).without(**without)
    np.testing.assert_allclose(made.costs.gradients[:2], dear.gradients[:2], rtol=1e-12)
    np.testing.assert_allclose(made.costs.gradients[2:], stage.costs.gradients[2:], rtol=1e-12)
    meter = Cost.parse(made.spent_after(2)).value
    assert meter == pytest.approx(np.sqrt(made.costs.gradients[:3].sum()), rel=1e-4)
    with pytest.raises(BudgetExhausted):
        with_less_reserved(stage).without(**without)
