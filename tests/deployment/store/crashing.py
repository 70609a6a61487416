"""A process that uses a store and is ended, as by `kill -9`, at a named point: python crashing.py PATH POINT STEPS...; without a point it goes on for ever."""

import os
import resource
import signal
import sys

from deployment.store.stores import DIGEST, begun, exchange
from sottovoce.deployment.ledger import Ledger
from sottovoce.deployment.store import Store


def end_at(point):
    def reached(name):
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def step(store, name):
    run = store.run(DIGEST)
    if name == "begin":
        begun(store)
    elif name == "boot":
        store.boot(DIGEST)
    elif name == "commit":
        store.commit(DIGEST, run.position + 1, **exchange(run.position + 1))
    elif name == "flush":
        for peer in ("bo", "cy"):
            store.acknowledged(DIGEST, peer, run.position)
        store.flush()
    elif name == "finish":
        store.finish(DIGEST, exchange(run.position)["state"])
    elif name == "cancel":
        Ledger(store).cancel(DIGEST)


def tell(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def go_on_for_ever(path, dimension):
    with Store.open(path) as store:
        position = store.run(DIGEST).position
        tell("ready")
        while True:
            position += 1
            store.commit(DIGEST, position, **exchange(position, dimension))
            tell(position)  # only now may it be sent
            for peer in ("bo", "cy"):
                store.acknowledged(DIGEST, peer, position - 1)


if __name__ == "__main__":
    path, point, *steps = sys.argv[1:]
    if point == "for-ever":
        go_on_for_ever(path, int(steps[0]))
    if point.startswith("limit "):
        size = int(point.split()[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    with Store.open(path, reached=end_at(point)) as store:
        for name in steps:
            step(store, name)
