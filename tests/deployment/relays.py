"""A real relay for tests: see tools/local_relay.py.

with Relay(folder, roster) as relay:
    transport = NatsTransport(identity, roster, relay.address)
    relay.kill()                    # SIGKILL
    relay.start(keep_disk=False)    # as after the loss of its disk
"""

from local_relay import Relay, free_port, nats_server

__all__ = ["Relay", "free_port", "nats_server"]
