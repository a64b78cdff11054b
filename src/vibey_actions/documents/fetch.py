"""Fetching what a document names: an address from outside, so nothing inside this network may be reached with it.

https on 443 only, and no private, loopback or link-local address: looked at after resolution, on every redirect, and
the connection goes to the very address that was looked at, so that a second answer of the name server changes nothing.
No proxy is used, because that would resolve the name again. Other hosts only through a declared list.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from vibey_actions.text import shown

SECONDS: Final = 15.0
MOST_BYTES: Final = 10_000_000
IMAGES: Final = ("image/jpeg", "image/png", "image/webp", "image/gif")
MOST_REDIRECTS: Final = 3
HTTPS: Final = 443

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PASSING: Final = frozenset({408, 421, 423, 425, 429})
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_MOST_URL: Final = 2048
_IPv4 = ipaddress.IPv4Address
_IPv6 = ipaddress.IPv6Address
_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(net)
    for net in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
        *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *(
            "224.0.0.0/4",
            "240.0.0.0/4",
            "::/96",
            "64:ff9b:1::/48",
            "100::/64",
            "2001::/23",
            "2001:db8::/32",
            "3fff::/20",
        ),
        *("5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
)
"""What the registries of special addresses name, whatever this version of Python thinks of it."""
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def addresses(host: str, port: int) -> list[str]:
    """The addresses that a name stands for. Raises OSError where it stands for none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class NotFetched(Exception):
    """Nothing came that may be used. ``final``: another try would not help."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was found."""

    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    """An address taken apart. ``host`` is what the certificate has to name."""

    host: str
    port: int
    path: str

    @property
    def name(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS else f"{host}:{self.port}"


@dataclass(frozen=True)
class Fetcher:
    """Fetches within the rules. ``allowed`` are HOST or HOST:PORT that may be anything; ``authorities`` is a file of
    certificates (None: those that come with the program)."""

    allowed: frozenset[tuple[str, int]] = frozenset()
    authorities: str | None = None
    seconds: float = SECONDS
    most_bytes: int = MOST_BYTES
    resolve: Callable[[str, int], list[str]] = addresses

    @classmethod
    def allowing(cls, hosts: Iterable[str], authorities: str | None = None) -> Fetcher:
        """A fetcher with a declared list. Raises ValueError, saying which entry cannot be used."""
        return cls(frozenset(_entry(host) for host in hosts), authorities)

    def check(self, url: str) -> None:
        """Refuse an address that would not be fetched, as far as its text tells. Raises NotFetched."""
        place = self._place(url)
        if (place.host, place.port) not in self.allowed:
            with suppress(ValueError):
                _public(str(ipaddress.ip_address(place.host)), place)

    def fetch(self, url: str, kinds: tuple[str, ...] = IMAGES) -> Fetched:
        """What is at ``url``, of one of ``kinds``. Raises NotFetched."""
        end = time.monotonic() + self.seconds
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._once(self._place(url), kinds, end)
            if isinstance(answer, Fetched):
                return answer
            try:
                url = urljoin(url, answer)
            except ValueError:
                raise NotFetched(f"{_short(url)} redirects to what is no address", final=True) from None
        raise NotFetched(f"{_short(url)} redirects more than {MOST_REDIRECTS} times", final=True)

    def _place(self, url: str) -> _Place:
        if len(url) > _MOST_URL or not url.isprintable() or any(each in url for each in " \\"):
            raise NotFetched("the address of an image is too long, or holds blanks or invisible characters", final=True)
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), parts.port or HTTPS
            host = host if host.isascii() else host.encode("idna").decode("ascii")
        except ValueError:
            raise NotFetched(f"{_short(url)} is no address", final=True) from None
        if parts.scheme != "https" or "@" in parts.netloc or not (_HOST.fullmatch(host) or _is_ipv6(host)):
            raise NotFetched(f"{_short(url)} is no address of the form https://HOST/PATH", final=True)
        if port != HTTPS and (host, port) not in self.allowed:
            raise NotFetched(f"{_short(url)} is not on port 443, and not on the list of hosts", final=True)
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
        return _Place(host, port, f"{path}?{query}" if query else path)

    def _once(self, place: _Place, kinds: tuple[str, ...], end: float) -> Fetched | str:
        """What is at a place, or where it redirects to."""
        with _told(place, end), self._connected(place, end) as connection:
            accept = {"Accept": ", ".join(kinds), "Accept-Encoding": "identity", "User-Agent": "vibey-actions"}
            connection.request("GET", place.path, headers={"Host": place.name, **accept, "Connection": "close"})
            with connection.getresponse() as answer:
                location = answer.getheader("Location")
                if answer.status in _REDIRECTS and location:
                    return location
                return self._read(answer, place, kinds, end)

    def _read(self, answer: http.client.HTTPResponse, place: _Place, kinds: tuple[str, ...], end: float) -> Fetched:
        if answer.status != 200:  # noqa: PLR2004
            passing = answer.status >= 500 or answer.status in _PASSING  # noqa: PLR2004
            raise NotFetched(f"{place.name} answered {answer.status}", final=not passing)
        kind = (answer.getheader("Content-Type") or "").partition(";")[0].strip().lower()
        if kind not in kinds or answer.getheader("Content-Encoding", "identity").lower() != "identity":
            raise NotFetched(
                f"{place.name} sent {shown(kind, 60) or 'no content type'}, not {' or '.join(kinds)}", final=True
            )
        too_large = NotFetched(f"{place.name} sent more than {self.most_bytes} bytes", final=True)
        if answer.length is not None and answer.length > self.most_bytes:
            raise too_large
        found = bytearray()
        while piece := answer.read1(65_536):
            found += piece
            if len(found) > self.most_bytes:
                raise too_large
            if time.monotonic() >= end:
                raise TimeoutError
        if time.monotonic() >= end:
            raise TimeoutError
        if answer.length:
            raise NotFetched(f"{place.name} sent less than it announced", final=False)
        return Fetched(kind, bytes(found))

    @contextmanager
    def _connected(self, place: _Place, end: float) -> Iterator[http.client.HTTPSConnection]:
        """A connection to an address that was looked at, cut off when the time is over."""
        context = self._context()
        raw = self._open(place, end)
        with context.wrap_socket(raw, server_hostname=place.host, do_handshake_on_connect=False) as secure:
            # A peer that sends a byte now and then never runs into a socket's own time limit.
            watchdog = threading.Timer(max(0.0, end - time.monotonic()), _cut, (secure,))
            watchdog.daemon = True
            watchdog.start()
            try:
                secure.do_handshake()
                connection = http.client.HTTPSConnection(place.host, place.port, context=context)
                connection.sock = secure
                yield connection
            finally:
                watchdog.cancel()

    def _open(self, place: _Place, end: float) -> socket.socket:
        found = self.resolve(place.host, place.port)
        if (place.host, place.port) not in self.allowed:
            for address in found:
                _public(address, place)
        trouble: OSError = TimeoutError()
        for address in found:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            try:
                return socket.create_connection((address, place.port), left)
            except OSError as error:
                trouble = error
        raise trouble

    def _context(self) -> ssl.SSLContext:
        authorities = self.authorities
        if authorities is None:
            from requests.utils import DEFAULT_CA_BUNDLE_PATH

            authorities = DEFAULT_CA_BUNDLE_PATH
        return ssl.create_default_context(cafile=authorities)


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, the address that another one carries included."""
    try:
        given = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    every = (given, *_carried(given))
    if any(each.version == net.version and each in net for each in every for net in _NOT_PUBLIC):
        return False
    return all(each.is_global and not each.is_multicast for each in every)


def _carried(address: _IPv4 | _IPv6) -> list[_IPv4]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, _IPv4):
        return []
    teredo = address.teredo
    found = [address.ipv4_mapped, address.sixtofour, *(teredo or ())]
    if address in _NAT64:
        found.append(_IPv4(int(address) & 0xFFFF_FFFF))
    return [each for each in found if each is not None]


def _public(address: str, place: _Place) -> None:
    if not is_public(address):
        raise NotFetched(f"{place.name} is an address inside a network, which no document may have fetched", final=True)


@contextmanager
def _told(place: _Place, end: float) -> Iterator[None]:
    """What a network does in the block, as NotFetched."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        reason = shown(error.verify_message or "it is not trusted", 120)
        raise NotFetched(f"the certificate of {place.name} cannot be used: {reason}", final=False) from None
    except TimeoutError:
        raise NotFetched(f"{place.name} took too long", final=False) from None
    except socket.gaierror:
        raise NotFetched(f"the name {place.name} cannot be resolved", final=False) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() >= end:
            raise NotFetched(f"{place.name} took too long", final=False) from None
        detail = (error.strerror if isinstance(error, OSError) else "") or "the connection was cut"
        raise NotFetched(f"{place.name} could not be fetched from: {shown(detail, 120)}", final=False) from None


def _cut(secure: ssl.SSLSocket) -> None:
    """End a connection under whoever reads from it: the socket's own method, which leaves the cipher alone."""
    with suppress(OSError):
        socket.socket.shutdown(secure, socket.SHUT_RDWR)


def _entry(entry: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{entry.strip()}")
        host, port = (parts.hostname or "").rstrip("."), parts.port or HTTPS
    except ValueError:
        raise ValueError(entry) from None
    plain = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)
    if not plain or not (_HOST.fullmatch(host) or _is_ipv6(host)):
        raise ValueError(entry)
    return host, port


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6  # noqa: PLR2004
    except ValueError:
        return False


def _short(url: str) -> str:
    """An address without what may be a secret in it."""
    plain = re.sub(r"//[^/]*@", "//", url.partition("?")[0].partition("#")[0])
    return shown(plain, 120) or "an empty text"
