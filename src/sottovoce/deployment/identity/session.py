"""A party among the others of a run: who has said hello, and messages that only the two ends can read.

    session = Session(identity, roster, agreement_digest, run, run_key, boot)
    transport.send("ward-2", session.hello({"boot": 3}))             signed, not secret; each start begins with it, and it is answered by another
    session.greet(blob)                                              from now on both ends know each other's keys and fresh bytes
    transport.send("ward-2", session.seal("ward-2", "words", 17, payload))
    session.open("ward-2", blob).payload

A sealed message is

    S | run, name of the key, sender, receiver, kind, position, number | ChaCha20-Poly1305 of the payload, all that stands before it bound to it

Positions and kinds are the caller's; the session sees that nothing is changed, read or taken twice on the way. It forgets all of it when the process
ends: peers notice by the fresh bytes, and what they had sealed before has to be sealed anew. Keys for masks (`pair_key`) follow from the run keys
alone, and stay.
"""

import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.deployment.identity import exchange_keys
from sottovoce.deployment.identity.channel import KEY_NAME_BYTES, TAG_BYTES, Channel, End
from sottovoce.deployment.identity.hello import DIGEST_BYTES, LETTER, Hello, check_version, read_hello, signed_hello
from sottovoce.deployment.identity.identity import Identity
from sottovoce.deployment.identity.packing import framed, unframed
from sottovoce.deployment.identity.refusals import (
    DifferentAgreement,
    DifferentRoster,
    Equivocation,
    Malformed,
    NotGreeted,
    OtherBoot,
    Oversized,
    Superseded,
    WrongReceiver,
    WrongRun,
    WrongSender,
)
from sottovoce.deployment.identity.roster import Roster
from sottovoce.errors import ConfigError

LARGEST_PAYLOAD = 2**30
_SEALED = b"S"
_MOST_STARTS = 1000  # of one other party during one start of this one
_LONGEST_RUN, _LONGEST_KIND = 200, 32
_RUN_BYTES = 16


class Opened(NamedTuple):
    """A message from another party that is genuine and new."""

    peer: str
    kind: str
    position: int
    payload: bytes


class _Peer:
    """What is known of one other party."""

    def __init__(self) -> None:
        self.run_key: bytes | None = None  # public
        self.boot: bytes | None = None  # of the start that is talked to
        self.boot_count = -1
        self.channels: dict[bytes, Channel] = {}  # by boot; kept, so that no number is used twice under one key


class Session:
    """One start of one party in one run."""

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        agreement_digest: bytes,
        run: str,
        run_key: X25519PrivateKey | bytes,
        boot: bytes,
        *,
        largest_payload: int = LARGEST_PAYLOAD,
    ) -> None:
        """Begin; nothing is sent.

        Args:
            identity: who this party is.
            roster: who the others are.
            agreement_digest: 32 bytes, of what this party has agreed to.
            run: the name of the run.
            run_key: the one private X25519 key of this party in this run, or its 32 bytes (`new_run_key`).
            boot: 32 fresh random bytes (`fresh_boot`), another time others.
            largest_payload: the most bytes in a payload that is opened.

        Raises:
            ConfigError: something has the wrong size, or the roster knows this party by another key.
        """
        _check_sizes(agreement_digest, run, boot)
        if roster[identity.name].identity_key != identity.public_key:
            raise ConfigError(
                f"The roster lists another key for {identity.name} than the one in this party's key file. Compare fingerprints (sottovoce keys show, "
                "sottovoce roster show) and put the right entry into the roster."
            )
        self._identity, self._roster, self._digest = identity, roster, agreement_digest
        self._run, self._boot, self._largest_payload = run, boot, largest_payload
        self._run_key = X25519PrivateKey.from_private_bytes(run_key) if isinstance(run_key, bytes) else run_key
        self._salt = run_digest(run, agreement_digest)
        self._peers = {name: _Peer() for name in roster.names if name != identity.name}

    def __repr__(self) -> str:
        greeted = sum(peer.boot is not None for peer in self._peers.values())
        return f"Session({self.party} in {self._run!r}, {greeted} of {len(self._peers)} others greeted)"

    @property
    def party(self) -> str:
        """The name of this party."""
        return self._identity.name

    @property
    def members(self) -> tuple[str, ...]:
        """Names of all members of the roster, the same for everybody."""
        return self._roster.names

    @property
    def identity_key(self) -> bytes:
        """The public identity key of this party."""
        return self._identity.public_key

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._run

    @property
    def agreement(self) -> bytes:
        """The digest of what this party has agreed to."""
        return self._digest

    def key_of(self, name: str) -> bytes:
        """The public identity key of a member."""
        return self._roster[name].identity_key

    def sign(self, purpose: str, message: bytes) -> bytes:
        """This party's signature of a message for one purpose."""
        return self._identity.sign(purpose, message)

    def secret(self, use: bytes) -> bytes:
        """32 bytes that only this party knows, for one use in this run; the same at every start."""
        return hmac.digest(self._run_key.private_bytes_raw(), b"sottovoce/own/1\0" + self._salt + use, "sha256")

    @property
    def boot(self) -> bytes:
        """The fresh bytes of this start."""
        return self._boot

    @property
    def run_keys(self) -> dict[str, bytes]:
        """Public run keys of the others, as far as they are known; the next start should `remember` them."""
        return {name: peer.run_key for name, peer in self._peers.items() if peer.run_key is not None}

    def remember(self, run_keys: Mapping[str, bytes]) -> None:
        """Take in public run keys that an earlier start has stored; other ones are refused from now on.

        Raises:
            Equivocation: a party has shown another one already.
        """
        for name, run_key in run_keys.items():
            exchange_keys.check_exchange_key(run_key)
            self._check_run_key(name, run_key)
        for name, run_key in run_keys.items():
            self._peer(name).run_key = run_key

    def greeted(self, peer: str) -> bool:
        """Whether a party has said hello to this start."""
        return self._peer(peer).boot is not None

    def hello(self, counters: Mapping[str, int]) -> bytes:
        """This party's hello, to everybody.

        Args:
            counters: how far its store has come, by name. Where "boot" is among them, others refuse hellos of earlier starts.
        """
        public = self._run_key.public_key().public_bytes_raw()
        hello = Hello(self._run, self._digest, self._roster.digest, self.party, public, self._boot, dict(counters), b"")
        return signed_hello(self._identity, hello)

    def greet(self, blob: bytes, sender: str | None = None) -> Hello:
        """Take in the hello of another party; the same one again changes nothing.

        Args:
            blob: as it came.
            sender: who the transport says it is from; left out where a hello may be handed on by others.

        Raises:
            Malformed, Oversized, UnknownParty, Forged: it is no hello of a member.
            WrongSender: it is another party's than `sender`'s.
            WrongRun: it is of another run.
            DifferentAgreement: the other party has agreed to something else.
            DifferentRoster: it knows other members.
            DifferentVersion: `sender` has signed a hello of another version.
            Equivocation: it has shown another run key before, or there is a second process with this party's own identity.
            Superseded: the party has started again since.
        """
        if sender is not None:
            check_version(blob, sender, self._roster)
        hello = read_hello(blob, self._roster)
        if sender is not None and hello.party != sender:
            raise WrongSender(
                f"{sender} handed over the hello of {hello.party}; everybody says its own. It is ignored."
            )
        self._check_terms(hello)
        self._check_run_key(hello.party, hello.run_key)
        peer = self._peer(hello.party)
        _check_start(hello, peer)
        if hello.boot not in peer.channels:
            peer.channels[hello.boot] = self._new_channel(hello)
        peer.run_key, peer.boot = hello.run_key, hello.boot
        peer.boot_count = hello.counters.get("boot", peer.boot_count)
        return hello

    def seal(self, peer: str, kind: str, position: int, payload: bytes) -> bytes:
        """A message that only one other party can read.

        Args:
            peer: who it is for; it has said hello.
            kind: what it is, in a word.
            position: of the exchange that it belongs to.
            payload: any bytes.

        Raises:
            NotGreeted: there is no key before the hello of the other end.
        """
        if not 1 <= len(kind) <= _LONGEST_KIND or not 0 <= position < 2**63:
            raise ConfigError(
                f"kind={kind!r} needs 1 to {_LONGEST_KIND} characters, and position={position} has to be from 0 to 2^63 - 1."
            )
        channel = self._channel(peer)
        number = channel.next_number()
        fields = [self._salt[:_RUN_BYTES], channel.sealing_name, self.party, peer, kind, position, number]
        header = framed(_SEALED, fields)
        return header + channel.seal(number, header, payload)

    def open(self, sender: str, blob: bytes) -> Opened:
        """A message that the transport says is from `sender`, once it has proved to be.

        Raises:
            Malformed, Oversized: it is no sealed message of this version.
            WrongRun, WrongSender, WrongReceiver: it belongs elsewhere.
            NotGreeted, OtherBoot: it was sealed before the two ends knew each other's start.
            Forged: it was changed, or made without the key.
            Repeated: it was opened before.
        """
        if len(blob) > self._largest_payload + 4096:
            raise Oversized(
                f"{sender} sent {len(blob)} bytes; a message of this run has at most {self._largest_payload}. It is ignored."
            )
        fields, end = unframed(_SEALED, blob)
        if not _is_header(fields) or len(blob) < end + TAG_BYTES:
            raise Malformed(f"{sender} sent a sealed message with other parts than it should have; it is ignored.")
        run, key_name, source, target, kind, position, number = fields
        if run != self._salt[:_RUN_BYTES]:
            raise WrongRun(
                f"{sender} sent a message of another run than {self._run!r}, or of one under another agreement; it is ignored."
            )
        if source != sender:
            raise WrongSender(f"A message that came from {sender} says to be from another party; it is ignored.")
        if target != self.party:
            raise WrongReceiver(f"A message from {sender} is for another party than {self.party}; it is ignored.")
        channel = self._channel(sender)
        if key_name != channel.opening_name:
            raise OtherBoot(
                f"{sender} sealed a message for another start of {self.party}, or before it started again itself; both say hello anew."
            )
        payload = channel.open(number, bytes(blob[:end]), memoryview(blob)[end:])
        return Opened(sender, kind, position, payload)

    def pair_key(self, peer: str) -> bytes:
        """32 secret bytes that this party and one other have in this run, the same at every start; what is drawn from them is derived further.

        Raises:
            NotGreeted: the other's run key is not known yet.
        """
        run_key, other = self._peer(peer).run_key, self._roster[peer].identity_key
        if run_key is None:
            raise NotGreeted(f"{peer} has not said hello, and its key of the run is not known. Wait for its hello.")
        use = b"sottovoce/mask/1" + min(self.identity_key, other) + max(self.identity_key, other)
        return exchange_keys.pair_key(self._run_key, run_key, salt=self._salt, use=use)

    def _peer(self, name: str) -> _Peer:
        if name == self.party:
            raise WrongReceiver(f"{name} is this party itself; it has nothing to tell itself.")
        self._roster[name]
        return self._peers[name]

    def _check_run_key(self, name: str, run_key: bytes) -> None:
        known = self._peer(name).run_key
        if known is not None and known != run_key:
            raise Equivocation(
                f"{name} shows a second key for the run {self._run!r}; a party has one, so that masks and messages of one run cannot be mixed. "
                f"Ask {name}: either its store was lost, then this run cannot go on with it, or somebody else has its identity key."
            )

    def _new_channel(self, hello: Hello) -> Channel:
        if len(self._peer(hello.party).channels) >= _MOST_STARTS:
            raise Equivocation(
                f"{hello.party} has started {_MOST_STARTS} times since this party started; it is not listened to any more."
            )
        me = End(self.identity_key, self._run_key.public_key().public_bytes_raw(), self._boot)
        other = End(self._roster[hello.party].identity_key, hello.run_key, hello.boot)
        return Channel(self._run_key, self._salt, me, other)

    def _channel(self, name: str) -> Channel:
        peer = self._peer(name)
        if peer.boot is None:
            raise NotGreeted(
                f"{name} has not said hello since {self.party} started; there is no key yet. Say hello and wait for the answer."
            )
        return peer.channels[peer.boot]

    def _check_terms(self, hello: Hello) -> None:
        if hello.party == self.party:
            raise Equivocation(
                f"A hello of {self.party} itself has come. If it was not made by this process, a second one runs with the same identity key: stop one of them."
            )
        if hello.run != self._run:
            raise WrongRun(
                f"{hello.party} takes part in the run {hello.run!r}; this one is {self._run!r}. Start both with the same file."
            )
        if hello.digest != self._digest:
            raise DifferentAgreement(
                f"The agreements differ: {hello.party} has accepted {hello.digest.hex()[:16]} for the run {self._run!r}, {self.party} has accepted "
                f"{self._digest.hex()[:16]}. Nothing was sent. Compare the two files, and start both with the same one."
            )
        if hello.roster != self._roster.digest:
            raise DifferentRoster(
                f"{hello.party} and {self.party} know different members. Compare the numbers of `sottovoce roster show`, and use the same roster."
            )


def _check_start(hello: Hello, peer: _Peer) -> None:
    count = hello.counters.get("boot", peer.boot_count)
    if count < peer.boot_count:
        raise Superseded(
            f"{hello.party} has said hello from its start number {peer.boot_count}; this one is from start {count}. It is ignored."
        )
    if "boot" in hello.counters and count == peer.boot_count and hello.boot != peer.boot:
        raise Equivocation(
            f"Two processes say to be start number {count} of {hello.party}: it runs twice, or its store was set back. "
            f"{hello.party} has to stop one of them."
        )


def is_hello(blob: bytes) -> bool:
    """Whether a blob is for `Session.greet`; otherwise it is for `Session.open`."""
    return blob[:1] == LETTER


def new_run_key() -> bytes:
    """The 32 secret bytes of a new X25519 key, for one run."""
    return X25519PrivateKey.generate().private_bytes_raw()


def fresh_boot() -> bytes:
    """32 random bytes for one start of a process."""
    return os.urandom(32)


def run_digest(run: str, agreement_digest: bytes) -> bytes:
    """What every key of a run is bound to: its name and its agreement."""
    return hashlib.sha256(b"sottovoce/run/1\0" + agreement_digest + run.encode()).digest()


def _check_sizes(agreement_digest: bytes, run: str, boot: bytes) -> None:
    if len(agreement_digest) != DIGEST_BYTES or len(boot) != DIGEST_BYTES:
        raise ConfigError(
            f"A session needs an agreement's digest and the random bytes of a start, {DIGEST_BYTES} bytes each; given were {len(agreement_digest)} and "
            f"{len(boot)}. Use Agreement.digest and fresh_boot()."
        )
    if not 1 <= len(run) <= _LONGEST_RUN:
        raise ConfigError(
            f"The name of a run has {len(run)} characters; from 1 to {_LONGEST_RUN} are needed. Choose another."
        )


def _is_header(fields: list[Any]) -> bool:
    return (
        [type(each) for each in fields] == [bytes, bytes, str, str, str, int, int]
        and len(fields[0]) == _RUN_BYTES
        and len(fields[1]) == KEY_NAME_BYTES
        and all(0 <= number < 2**63 for number in fields[5:])
    )
