"""Runs among parties that hold their own data and trust each other only as far as stated.

    terms        what parties agree on: the public parts of a run, resolved to numbers, and their digest
    integers     the lattice on which parties compute, noise on it, masks modulo 2^64
    agent        what one party does in a run: pure functions
    privacy      what a run gives away, rounding included
    identity     keys, roster, sealed messages
    transports   how sealed bytes travel
    store        what a party must not forget, in one file for a data set
    ledger       what all runs on a data set have given away
    party        the process that puts these together
    gopa         private sums: masks that cancel in pairs, own noise, drop-outs and repair, over a public log
    gopa_parties FedAvg with such sums as processes: agents, a board and a beacon

Keys and noise come from the operating system's random numbers. Each part says whom it trusts for what, refuses what would break its promise, and
states what it reveals. `sottovoce.simulation` runs algorithms; nothing in it protects anybody.
"""


def __dir__() -> list[str]:
    return ["gopa"]
