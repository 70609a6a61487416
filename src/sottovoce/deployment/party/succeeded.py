"""Under which agreement a run stands in a store, after parties have gone on without some that were lost.

A run that goes on keeps its reservation: the runs of one entry of the ledger are one run, and each but the first names the agreement that it follows.
"""

from sottovoce.deployment.identity import Identity, Roster
from sottovoce.deployment.party.exclusion import Exclusion
from sottovoce.deployment.party.going_on import Course, GoesOn
from sottovoce.deployment.store import Store, StoreError
from sottovoce.deployment.store.succession import certificate_of
from sottovoce.deployment.terms import Agreement


def latest_course(course: Course, store: Store, identity: Identity, roster: Roster, goes_on: GoesOn | None) -> Course:
    """What the run of an agreement has become, made again from what all who remained have signed.

    Args:
        course: the first agreement, whose run was begun.
        store: in which.
        identity: of this party.
        roster: by whose keys statements are checked.
        goes_on: makes what follows.

    Raises:
        StoreError: what follows is no longer what was signed.
    """
    first = store.run(course.agreement.digest)
    if first is None or goes_on is None:
        return course
    later = {
        made.continues.previous: made
        for run in store.runs()
        if run.entry == first.entry and run.digest != first.digest
        for made in (Agreement.parse(run.agreement),)
        if made.continues is not None
    }
    while (made := later.get(course.agreement.digest.hex())) is not None:
        assert made.continues is not None
        signed = certificate_of(store, made.digest)
        exclusion = Exclusion(course.agreement, identity, roster, kept=signed, keep=lambda statements: None)
        course = goes_on(course, frozenset(made.continues.excluded), made.continues.after, exclusion.voted_at)
        if course.agreement.digest != made.digest:
            raise StoreError(
                f"the run {made.run!r} goes on under an agreement that this version of Sottovoce does not resolve to the same numbers. Use the version with which it went on."
            )
    return course
