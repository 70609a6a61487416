"""One round of GOPA: thirty parties average private vectors through a server that none of them trusts.

Real keys, real messages as bytes, masks from key agreement, own noise from the operating system. Two parties fall silent after they promised to
publish; their partners repair the sum. Then we ask what the server learned together with ten of the parties.
"""

import secrets

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.deployment.gopa import FixedPoint, RoundedGaussian, Terms, UniformMasks, guarantee, rehearse, total

PARTIES, DIMENSION, CLIP, BITS, STD = 30, 4, 1.0, 24, 1.0  # STD: own noise of a party, in units of its vector

board, beacon, *identities = (Ed25519PrivateKey.generate() for _ in range(PARTIES + 2))
terms = Terms(
    run=secrets.token_bytes(16),
    round_number=1,
    roster=tuple(identity.public_key().public_bytes_raw() for identity in identities),
    board=board.public_key().public_bytes_raw(),
    beacon=beacon.public_key().public_bytes_raw(),
    dimension=DIMENSION,
    encoding=FixedPoint(clip=CLIP, fraction_bits=BITS),
    own_noise=RoundedGaussian(std=STD * 2**BITS),
    masks=UniformMasks(),
    out_degree=8,
    minimum_parties=25,
    minimum_neighbours=5,
    publish_until=100,
    drops_from=200,
)
values = np.random.default_rng(0).uniform(-0.5, 0.5, size=(PARTIES, DIMENSION))
played = rehearse(
    terms, identities=identities, board=board, beacon=beacon, values=list(values), silence={7: "publication", 11: "publication"}
).play(beacon_value=secrets.token_bytes(32))  # fmt: skip

outcome = total(played)
there = sorted(outcome.parties)
found = guarantee(played, coalition=range(10))
print(f"{len(there)} of {PARTIES} parties in the sum, standard deviation of the mean {outcome.noise_variance**0.5:.3f}")
print(f"largest error {np.abs(outcome.mean - values[there].mean(axis=0)).max():.3f}")
print(f"server and parties 0 to 9: epsilon {found.epsilon(1e-5):.2f} at delta 1e-5")
alone = guarantee(played, coalition=range(PARTIES - 1))
print(f"server and all but one:    epsilon {alone.epsilon(1e-5):.2f}")
