"""A network of packets: every party in a network namespace of its own, and a switch between them that loses some.

A proxy for TCP cannot lose anything. Here the kernels' own TCP has to bear it: each namespace has a TUN device whose other end the switch holds, and a
packet goes into the device of its receiver, or nowhere. `netem` would do the same where a kernel has it; this needs nothing but namespaces and TUN, and
the right to make them.
"""

import ctypes
import fcntl
import os
import random
import selectors
import socket
import struct
import subprocess
import threading
from pathlib import Path

from deployment.network.process import Plan, live

PORT = 7000
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_TUNSETIFF, _TUN, _NO_INFORMATION = 0x400454CA, 0x0001, 0x1000
_SWITCH = "switch"
_LONGEST = 65536


def address(number: int) -> str:
    """Where a party listens in its own namespace."""
    return f"10.77.0.{number + 1}:{PORT}"


def move_out(number: int) -> int:
    """Take this process into a network of its own, with one device; returns the device's other end.

    Raises:
        OSError: the system does not allow it.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace can be made")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"wire", _TUN | _NO_INFORMATION))
    host = address(number).partition(":")[0]
    for words in (f"addr add {host}/24 dev wire", "link set dev wire mtu 1400 up", "link set dev lo up"):
        try:
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            raise OSError(f"the command `ip {words}` failed: {error}") from error
    return device


def try_to_move_out(told) -> None:
    """Say whether the system allows it: nothing, or why not."""
    try:
        os.close(move_out(0))
        told.send("")
    except OSError as error:
        told.send(str(error))


def live_apart(plan: Plan, name: str) -> None:
    """A party in its own namespace."""
    device = move_out(plan.names.index(name))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as switch:
        switch.connect(str(plan.folder / _SWITCH))
        socket.send_fds(switch, [bytes([plan.names.index(name) + 1])], [device])
    os.close(device)
    live(plan, name)


class Switch:
    """Carries packets between namespaces, in a thread.

    Attributes:
        loss: the probability that a packet is lost; 1 is a partition.
        lost, carried: packets so far.
    """

    def __init__(self, folder: Path, *, loss: float, seed: int) -> None:
        self.loss, self.lost, self.carried = loss, 0, 0
        self._chance, self._devices = random.Random(seed), dict[int, int]()
        self._asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asked.bind(str(folder / _SWITCH))
        self._asked.listen()
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._asked, selectors.EVENT_READ)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Carry nothing more."""
        self._closing.set()
        self._thread.join()
        self._ready.close()
        self._asked.close()
        for device in self._devices.values():
            os.close(device)

    def _run(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._ready.select(0.1):
                if key.fileobj is self._asked:
                    self._plug_in()
                else:
                    self._carry(key.fd)

    def _plug_in(self) -> None:
        party, _ = self._asked.accept()
        with party:
            told, (device,), _, _ = socket.recv_fds(party, 1, 1)
        if (old := self._devices.pop(told[0], None)) is not None:
            self._unplug(old)
        self._devices[told[0]] = device
        self._ready.register(device, selectors.EVENT_READ)

    def _unplug(self, device: int) -> None:
        self._ready.unregister(device)
        os.close(device)

    def _carry(self, device: int) -> None:
        packet = os.read(device, _LONGEST)
        if packet[0] >> 4 != 4:
            return  # a namespace looks for routers, which there are not
        if self._chance.random() < self.loss:
            self.lost += 1
        elif (receiver := self._devices.get(packet[19])) is not None:  # the last byte of its address
            self.carried += 1
            os.write(receiver, packet)
