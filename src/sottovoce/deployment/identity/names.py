"""What a party may be called, what it may be, and where it may listen."""

import ipaddress
import re

from sottovoce.errors import ConfigError

ROLES = ("agent", "relay", "board", "beacon")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)
_NUMBERS = re.compile(r"[0-9.]+", re.ASCII)


def check_name(name: str) -> str:
    """A party's name, which is also the name of its key file.

    Raises:
        ConfigError: it has other characters than letters, digits, dots, hyphens and underscores, or is too long.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"The name {name!r} cannot be a party's: it needs 1 to 63 of the letters a-z and A-Z, digits, '.', '-' and '_', a letter or digit "
            "first. Choose another, such as hospital-3."
        )
    return name


def check_role(role: str) -> str:
    """What a party is in a run.

    Raises:
        ConfigError: there is no such role.
    """
    if role not in ROLES:
        raise ConfigError(
            f"The role {role!r} does not exist; a party is one of {', '.join(ROLES)}. One that holds data is an agent."
        )
    return role


def split_address(address: str) -> tuple[str, int]:
    """(host, port) of an address.

    Raises:
        ConfigError: it is not `host:port` with a host name or an IPv4 address.
    """
    host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not colon or not _is_host(host) or not re.fullmatch(r"[1-9][0-9]{0,4}", port, re.ASCII) or int(port) > 65535:
        raise ConfigError(
            f"The address {address!r} cannot be used: it needs the form host:port, with the name or IPv4 address under which the others reach this "
            "party and a port from 1 to 65535, such as hospital-3.example.org:7443."
        )
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, and cannot be reached from another one."""
    if host.lower() == "localhost":
        return True
    return bool(_NUMBERS.fullmatch(host)) and _is_host(host) and ipaddress.IPv4Address(host).is_loopback


def _is_host(host: str) -> bool:
    if _NUMBERS.fullmatch(host):
        try:
            return not ipaddress.IPv4Address(host).is_unspecified
        except ValueError:
            return False
    return len(host) <= 253 and bool(_HOST.fullmatch(host))
