"""Small rounds for the tests: identities, terms and vectors, and what the sum must be."""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.deployment.gopa import (
    Board,
    FixedPoint,
    Party,
    Rehearsal,
    RoundedGaussian,
    Terms,
    Transcript,
    UniformMasks,
)
from sottovoce.deployment.gopa.run import _remembering

RUN = bytes(range(16))
READ = _remembering()
VALUE = hashlib.sha256(b"a beacon of the tests").digest()


def identity(name):
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"identity {name}".encode()).digest())


def public(name):
    return identity(name).public_key().public_bytes_raw()


def terms(num_parties, **changes):
    settings = {
        "run": RUN,
        "round_number": 3,
        "roster": tuple(public(number) for number in range(num_parties)),
        "board": public("board"),
        "beacon": public("beacon"),
        "dimension": 2,
        "encoding": FixedPoint(clip=1.0, fraction_bits=16),
        "own_noise": RoundedGaussian(std=1000.0),
        "masks": UniformMasks(),
        "out_degree": 2,
        "minimum_parties": 2,
        "minimum_neighbours": 1,
        "publish_until": 100,
        "drops_from": 120,
    }
    return Terms(**(settings | changes))


def secret(name):
    return hashlib.sha256(f"secret {name}".encode()).digest()


def setting(num_parties, *, silence=None, seed=0, **changes) -> Rehearsal:
    """A round whose secrets follow from a seed, so that its graph is the same in every run of the tests."""
    agreed = terms(num_parties, **changes)
    values = np.random.default_rng(seed).normal(size=(num_parties, agreed.dimension))
    parties = tuple(
        Party(
            Transcript(agreed, read=READ),
            identity(number),
            value,
            exchange=X25519PrivateKey.from_private_bytes(secret(f"exchange {seed} {number}")),
            noise_secret=secret(f"noise {seed} {number}"),
        )
        for number, value in enumerate(values)
    )
    return Rehearsal(
        board=Board(Transcript(agreed, read=READ), identity("board")),
        beacon=identity("beacon"),
        parties=parties,
        server=Transcript(agreed, read=READ),
        silence=dict(silence or {}),
    )


def expected_units(rehearsal, numbers):
    """Sum of inputs and own noise in Python integers."""
    columns = range(rehearsal.server.terms.dimension)
    noise = {number: rehearsal.parties[number].own_noise() for number in numbers}
    return [sum(int(rehearsal.parties[n].units[c]) + int(noise[n][c]) for n in numbers) for c in columns]


def state(transcript):
    """Everything a message could change, for comparison."""
    return (
        transcript.phase,
        transcript.head,
        transcript.opened,
        dict(transcript.registered),
        dict(transcript.neighbours),
        set(transcript.ready),
        transcript.active,
        {number: words.tolist() for number, words in transcript.publications.items()},
        transcript.dropped,
        set(transcript.cosigners),
        {number: words.tolist() for number, words in transcript.repairs.items()},
    )
