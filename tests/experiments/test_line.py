"""Over which lines a run may go: masks that are counted on need neighbours whom a publication reaches."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import sottovoce as sv
from deployment.terms.agreements import agreement, public_run
from sottovoce.errors import IncompatibleChoice
from sottovoce.experiments import check_line

MASKED = sv.algorithms.fedavg(
    step_size=0.1, update_clip=sv.clipping.Clip(1.0, "l2"), aggregation=sv.algorithms.Gopa(partners=3)
)


def joining(collude, *, masked: bool = True):
    run = public_run(topology=sv.topologies.federation(5), algorithm=MASKED)
    plain = replace(run, algorithm=sv.algorithms.fedavg(step_size=0.1))
    agreed = agreement(run if masked else plain, collude=collude)
    return SimpleNamespace(agreement=agreed, parts=SimpleNamespace(run=run if masked else plain))


def test_masks_are_not_counted_on_where_a_relay_could_help_the_board() -> None:
    with pytest.raises(IncompatibleChoice, match="a board that conspires with it"):
        check_line(joining(2), relayed=True)


@pytest.mark.parametrize(("collude", "masked", "relayed"), [(2, True, False), ("all", True, True), (2, False, True)])
def test_own_noise_hides_from_whoever_carries_the_messages(collude, masked, relayed) -> None:
    check_line(joining(collude, masked=masked), relayed=relayed)
