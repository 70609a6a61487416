"""The pages of the store that belong to one run: what the loop reads and writes, and how far the store has come, signed.

    committed p < end   an agent has taken the words of the exchanges before p, a relay also those of p
    committed end       everything is taken; what is kept as the state is the model

The key of the run outlives the model: it is erased when nobody can ask for anything more (`close`).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sottovoce.deployment.identity import Identity, Roster, packing
from sottovoce.deployment.store import Counters, Current, Meter, Proof, Store, succession
from sottovoce.deployment.store.counters import PURPOSE
from sottovoce.deployment.terms import Agreement
from sottovoce.errors import ConfigError
from sottovoce.wording import brief

_RUN_KEY = "run key of "  # before a name: the public key of another party, among what an exchange holds
_STATEMENTS = "statements"  # among what an exchange holds
_WIRE = "wire version"  # of the messages that were sent; an upgrade in the middle of a run keeps it


class Book:
    """One run in the open store of a data set."""

    def __init__(
        self,
        store: Store,
        digest: bytes,
        identity: Identity,
        roster: Roster,
        *,
        hears_first: bool,
        end: int,
        spent: Callable[[int], Meter],
    ) -> None:
        """Count one more start of this run, durably.

        Args:
            store: open for writing, with the run begun.
            digest: of its agreement.
            identity: who signs.
            roster: by whose keys others' counters are checked.
            hears_first: whether this party is a relay.
            end: the position after the last exchange.
            spent: position -> the meter after that exchange.

        Attributes:
            boots: starts of this run, with this one.
            run_keys: public run keys of others that were known at the last commit.
            proof: how far the store has come, signed.
            keep_statements: position -> what is to be written down of statements (`testimony`).
            statements: as they were written down last.
            meter: what the last committed exchange has spent.

        Raises:
            ConfigError: the run was begun by a release that speaks another version of the messages; nothing is counted.
        """
        self._store, self._digest, self._identity, self._roster = store, digest, identity, roster
        self._offset, self._end, self._spent = int(hears_first), end, spent
        begun, kept = store.run(digest), store.current(digest)
        self.meter: Meter = {} if begun is None else begun.spent
        _check_wire(kept, "" if begun is None else begun.name)
        self.boots = store.boot(digest)
        self.statements = b"" if kept is None else kept.held.get(_STATEMENTS, np.zeros(0, dtype=np.uint8)).tobytes()
        self.keep_statements: Callable[[int], bytes] = lambda position: self.statements
        self._kept, self.run_keys = _without_keys(kept)
        self._stand(store.counters())
        self._committed = -1 if self._kept is None else self._kept.position
        self._after = succession.followed_after(store, digest)

    @property
    def end(self) -> int:
        """The position after the last exchange."""
        return self._end

    @property
    def committed(self) -> int:
        """The position of the last committed exchange; -1: none."""
        return self._committed

    @property
    def follows(self) -> bool:
        """Whether the run goes on after the last exchange of another agreement, and nothing of this one is committed."""
        return 0 <= self._committed == self._after

    @property
    def taken(self) -> int:
        """How many exchanges are in a committed state."""
        if self.finished:
            return self._end
        if self.follows:
            return self._committed + 1
        return 0 if self._committed < 0 else self._committed + self._offset

    @property
    def finished(self) -> bool:
        """Whether the model is made."""
        return self._committed == self._end

    @property
    def begun(self) -> bool:
        """Whether anything may have been sent."""
        return self._committed >= 0

    def current(self) -> Current | None:
        """The last committed exchange; None before the first one. It is handed out once, and not kept here."""
        kept, self._kept = self._kept, None
        return kept

    def outgoing(self) -> list[tuple[str, int, bytes]]:
        """(receiver, position, words) of what was not acknowledged."""
        return [(each.peer, each.position, each.payload) for each in self._store.outgoing(self._digest)]

    def commit(
        self,
        position: int,
        state: np.ndarray,
        held: Mapping[str, np.ndarray],
        outgoing: Mapping[str, bytes],
        run_keys: Mapping[str, bytes],
    ) -> None:
        """Write down an exchange, and what was learnt of others since the last one, in one transaction.

        Args:
            position: of the exchange.
            state: as it was prepared.
            held: what it still needs.
            outgoing: words per receiver.
            run_keys: public keys of others, which they have to show again after a crash.
        """
        keys = {_RUN_KEY + name: np.frombuffer(key, dtype=np.uint8) for name, key in run_keys.items()}
        statements = self.keep_statements(position)
        meter = self._spent(min(position, self._end - 1))
        counters = self._store.commit(
            self._digest,
            position,
            state=state,
            held={**held, **keys, **_beside(statements)},
            outgoing=outgoing,
            spent=meter,
        )
        self._committed, self.meter = position, meter
        self._stand(counters)

    def acknowledged(self, receiver: str, taken: int) -> None:
        """Forget what a receiver has taken, in the file with the next transaction."""
        self._store.acknowledged(self._digest, receiver, taken - 1)

    def flush(self) -> None:
        """Write down acknowledgements now."""
        self._store.flush()

    def finish(self, model: np.ndarray) -> None:
        """Write down that the last words are taken: the model in place of the state."""
        self.commit(self._end, model, {}, {}, {})

    def close(self, model: np.ndarray) -> None:
        """Erase the key of the run, and whatever is left beside the model."""
        self._store.finish(self._digest, model)

    def keep_signed(self, statements: Sequence[bytes]) -> None:
        """Write down what parties have signed about those who are lost."""
        succession.keep_statements(self._store, self._digest, statements)

    def keep_state(self, state: np.ndarray) -> None:
        """Write down the state after the last committed exchange, taken, before this party consents to go on from it."""
        succession.keep_taken(self._store, self._digest, state)

    def kept_state(self) -> np.ndarray | None:
        """What `keep_state` wrote of the last committed exchange; None: nothing."""
        return succession.taken_state(self._store, self._digest)

    def signed(self) -> list[bytes]:
        """What they have signed under this agreement."""
        return succession.statements_of(self._store, self._digest)

    def certificate(self) -> list[bytes]:
        """What they have signed when this agreement followed another, and that one a third; empty where it followed none."""
        return succession.certificates_of(self._store, self._digest)

    def succeed(
        self,
        successor: Agreement,
        run_key: bytes,
        state: np.ndarray,
        held: Mapping[str, np.ndarray],
        statements: Sequence[bytes],
    ) -> None:
        """Go on under the agreement that follows, with the state that the last exchange left, and what it still holds for its round."""
        following = succession.Following(successor.digest, successor.canonical(), run_key)
        succession.succeed(self._store, self._digest, following, state=state, held=held, statements=statements)

    def seen(self, name: str, proof: Proof) -> None:
        """Take the counters of a greeting.

        Raises:
            RestoredBackup: the party has signed larger ones before.
            ProtocolError: it did not sign these.
        """
        self._store.seen(self._roster[name].identity_key, *proof)

    def noted(self, name: str, proof: Proof) -> None:
        """Take the counters of a message, which another one may have overtaken.

        Raises:
            ProtocolError: the party did not sign them.
        """
        self._store.noted(self._roster[name].identity_key, *proof)

    def highest(self, name: str) -> Sequence[Proof]:
        """The highest counters that a party has signed, for each of its stores."""
        return self._store.highest(self._roster[name].identity_key)

    def look_back(self, proofs: Sequence[Proof]) -> None:
        """Hold this store against what others show of it.

        Raises:
            RestoredBackup: it has sent more than it remembers.
        """
        self._store.check_not_behind(self._identity.public_key, proofs)

    def _stand(self, counters: Counters) -> None:
        content = counters.to_bytes()
        self.proof = Proof(content, self._identity.sign(PURPOSE, content))


def _check_wire(kept: Current | None, run: str) -> None:
    """Refuse to go on with a run whose other parties would not understand this release."""
    if kept is None or _WIRE not in kept.held:
        return
    spoken = int(kept.held[_WIRE][0])
    if spoken != packing.VERSION:
        raise ConfigError(
            f"the run {brief(run)!r} was begun with version {spoken} of the messages between parties, and this Sottovoce speaks version "
            f"{packing.VERSION}. Nothing was sent. Go on with a release that speaks version {spoken}, and upgrade when the run has ended."
        )


def _beside(statements: bytes) -> dict[str, np.ndarray]:
    """What is written down with every exchange beside what it needs: the version of messages, and statements."""
    kept = {_WIRE: np.array([packing.VERSION], dtype=np.uint8)}
    return kept | ({_STATEMENTS: np.frombuffer(statements, dtype=np.uint8)} if statements else {})


def _without_keys(kept: Current | None) -> tuple[Current | None, dict[str, bytes]]:
    """What an exchange held, and the public keys that were written down with it."""
    if kept is None:
        return None, {}
    keys = {name: value for name, value in kept.held.items() if name.startswith(_RUN_KEY)}
    held = {name: value for name, value in kept.held.items() if name not in keys and name not in (_STATEMENTS, _WIRE)}
    return Current(kept.position, kept.state, held), {
        name.removeprefix(_RUN_KEY): value.tobytes() for name, value in keys.items()
    }
