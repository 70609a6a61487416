"""Protocols between parties that hold their own data and trust each other only as far as stated.

    gopa    private sums: masks that cancel in pairs, own noise, drop-outs and repair, over a public log

A protocol here is a set of state machines that read and write bytes; keys and noise come from the operating system's
random numbers. Each says whom it trusts for what, refuses what would break its promise, and states, once a round is
over, what it has revealed. `sottovoce.simulation` runs algorithms; nothing in it protects anybody.
"""


def __dir__() -> list[str]:
    return ["gopa"]
