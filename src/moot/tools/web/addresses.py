"""Decides which addresses may be connected to for a model: public ones and those the user allowed. Pure."""

import ipaddress
import re
from collections.abc import Iterable
from typing import Protocol

from moot.domain.errors import ConfigError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Listed as global in some registries, but they lead into private networks.
_NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",  # the Azure host, reachable from its virtual machines
        "192.0.0.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# All public IPv6 addresses, except forms that embed an IPv4 address.
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")  # Teredo, examples, 6to4, examples
)
# The middle of an ISATAP address, followed by the tunnel's IPv4 address.
_ISATAP = (0x00005EFE, 0x02005EFE)

_ALLOWED = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[0-9.]+))(?P<bits>/[0-9]{1,3})?:(?P<port>[0-9]{1,5})")


class AddressRules(Protocol):
    def allows(self, host: str, port: int) -> bool:
        """Whether a connection to this numeric address is allowed."""
        ...


class PublicOnly:
    """Allows public addresses on the usual ports and the private ones in the configuration."""

    def __init__(self, *, ports: Iterable[int], allow_private: Iterable[str] = ()) -> None:
        entries = tuple(allow_private)
        if reason := find_invalid_entry(entries):
            raise ConfigError(f"allow_private {reason}", fix="Correct [web] in config.toml.")
        self._ports = frozenset(ports)
        self._allowed = [_parse_allowed(entry) for entry in entries]

    def allows(self, host: str, port: int) -> bool:
        address = parse_address(host)
        if address is None:
            return False
        if any(port == allowed and address in network for network, allowed in self._allowed):
            return True
        return port in self._ports and is_public(address)


class Anywhere:
    """Allows every address; for URLs that the user configured."""

    def allows(self, host: str, port: int) -> bool:
        return parse_address(host) is not None


def parse_address(host: str) -> _Address | None:
    """Parse an IP address in canonical form; None for names and other notations (zones, octal, hex, short forms)."""
    if "%" in host:
        return None
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in network for network in _NOT_PUBLIC_V4)
    if address not in _PUBLIC_V6 or any(address in network for network in _NOT_PUBLIC_V6):
        return False
    return address.is_global and (int(address) >> 32) & 0xFFFFFFFF not in _ISATAP


def reads_as_number(host: str) -> bool:
    """Whether some resolvers would read this name as an IPv4 address, because its last label is a number."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    return last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None


def find_invalid_entry(entries: Iterable[str]) -> str:
    """Describe the first invalid entry of a list of allowed addresses; empty if all are valid."""
    for entry in entries:
        try:
            _parse_allowed(entry)
        except ValueError:
            return f'has {ascii(entry)[:80]}; write entries such as "127.0.0.1:8080", "10.0.0.0/8:443" or "[::1]:80"'
    return ""


def _parse_allowed(entry: str) -> tuple[_Network, int]:
    match = _ALLOWED.fullmatch(entry.strip())
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(entry)
    return ipaddress.ip_network((match["six"] or match["four"]) + (match["bits"] or "")), int(match["port"])
