"""One file per proof. `account` asks every proof that applies, in this order, and states the smallest value.

A new kind of guarantee is one file with a `PROOF`, one line here and one test file. Proofs that stand alone come first.
"""

from sottovoce.accounting.proofs import (
    absorption_certificate,
    contraction,
    gradient_noise,
    laplace_rounds,
    masked_averages,
    no_noise,
    noise_with_memory,
    random_links,
    relay_averages,
    secret_agents,
    secret_records,
    sent_messages,
    walk_blocks,
    walk_hops,
    whole_view,
)

# How what agents send is accounted; the first that applies.
WAYS = (
    noise_with_memory.WAY,
    walk_hops.WAY,
    gradient_noise.WAY,
    random_links.WAY,
    relay_averages.WAY,
    sent_messages.WAY,
)

PROOFS = (
    no_noise.PROOF,
    walk_blocks.PROOF,
    walk_hops.PROOF,
    masked_averages.PROOF,
    secret_records.PROOF,
    secret_agents.PROOF,
    laplace_rounds.PROOF,
    sent_messages.PROOF,
    whole_view.PROOF,
    absorption_certificate.PROOF,
    contraction.PROOF,
)
