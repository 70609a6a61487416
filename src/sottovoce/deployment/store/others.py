"""What a store remembers of other parties: the highest counters that each of them signed, over all runs."""

from collections.abc import Iterable
from sqlite3 import Connection

from sottovoce.deployment.store.counters import PURPOSE, Counters, Proof, signed_by
from sottovoce.deployment.store.database import Database
from sottovoce.deployment.store.refusals import RestoredBackup
from sottovoce.errors import ProtocolError

MOST_STORES = 64  # of one identity: each of them takes room here, and any member could make up more


class Others:
    """Counters of others: those in the file, and newer ones that wait for the next transaction."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[bytes, bytes], Proof] = {}
        # The highest per identity and store, waiting or in the file: only one process writes, so that they are read once.
        self._highest: dict[tuple[bytes, bytes], Counters] = {}
        self._read_once: set[bytes] = set()  # identities whose counters in the file are in `highest`

    def seen(self, database: Database, identity_key: bytes, proof: Proof) -> None:
        """Take counters that may not be below earlier ones."""
        shown = _counters_of(identity_key, proof)
        known = self._known(database, identity_key, shown.store)
        if known is not None and shown.behind(known):
            raise RestoredBackup(
                f"the peer with key {identity_key.hex()[:16]}... shows {shown}; it signed {known} before. Its store was put back from an older copy, or "
                f"somebody replays an old greeting. It must put its newest files back; until then nothing is exchanged with it."
            )
        self._keep(identity_key, shown, proof)

    def noted(self, database: Database, identity_key: bytes, proof: Proof) -> None:
        """Take counters if they are above earlier ones."""
        shown = _counters_of(identity_key, proof)
        known = self._known(database, identity_key, shown.store)
        if known is None or not shown.behind(known):
            self._keep(identity_key, shown, proof)

    def highest(self, database: Database, identity_key: bytes) -> tuple[Proof, ...]:
        """The highest proofs of an identity, one for each of its stores."""
        with database.reading() as connection:
            rows = connection.execute(
                "SELECT store, counters, signature FROM others WHERE identity = ?", (identity_key,)
            ).fetchall()
        found = {store: Proof(counters, signature) for store, counters, signature in rows}
        found |= {store: proof for (identity, store), proof in self.waiting.items() if identity == identity_key}
        return tuple(found[store] for store in sorted(found))

    def check_not_behind(self, own: Counters, own_key: bytes, proofs: Iterable[Proof]) -> None:
        """Hold one's own counters against proofs with one's own signature."""
        for proof in proofs:
            once = _read(proof)
            if once is None or once.store != own.store:
                continue
            # Signatures cost time: only what would stop this party is checked, and a peer shows one proof of a store.
            if not own.behind(once) or not signed_by(own_key, PURPOSE, *proof):
                break
            raise RestoredBackup(
                f"this store has {own}, and a peer shows {once} with our own signature: an older copy was put back. Going on would send other "
                f"versions of what was sent. Put the newest file back; if it is lost, nothing more can run under this ledger."
            )

    def write(self, connection: Connection) -> None:
        """Put into the file what waits."""
        connection.executemany(
            "INSERT INTO others VALUES (?, ?, ?, ?) "
            "ON CONFLICT (identity, store) DO UPDATE SET counters = excluded.counters, signature = excluded.signature",
            [(identity, store, *proof) for (identity, store), proof in self.waiting.items()],
        )

    def _keep(self, identity_key: bytes, shown: Counters, proof: Proof) -> None:
        key = (identity_key, shown.store)
        if key not in self._highest:
            self._check_room(identity_key)
        self.waiting[key], self._highest[key] = proof, shown

    def _known(self, database: Database, identity_key: bytes, store: bytes) -> Counters | None:
        if identity_key not in self._read_once:
            self._read_once.add(identity_key)
            for proof in self.highest(database, identity_key):
                counters = Counters.from_bytes(proof.counters)
                self._highest[identity_key, counters.store] = counters
        return self._highest.get((identity_key, store))

    def _check_room(self, identity_key: bytes) -> None:
        if sum(identity == identity_key for identity, _ in self._highest) >= MOST_STORES:
            raise ProtocolError(
                f"the peer with key {identity_key.hex()[:16]}... shows counters of more than {MOST_STORES} stores; what it shows of others is ignored."
            )


def _read(proof: Proof) -> Counters | None:
    try:
        return Counters.from_bytes(proof.counters)
    except ProtocolError:
        return None


def _counters_of(identity_key: bytes, proof: Proof) -> Counters:
    if not signed_by(identity_key, PURPOSE, *proof):
        raise ProtocolError(
            f"counters that the peer with key {identity_key.hex()[:16]}... did not sign. Compare the roster's fingerprints by voice."
        )
    return Counters.from_bytes(proof.counters)
