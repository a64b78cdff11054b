"""What goes wrong on the way to a server, as errors in plain words: lost for now, or wrong for good."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from vibey_actions.errors import RemoteFailed
from vibey_actions.text import shown

CONNECT_TIMEOUT = 10.0


class AnswerLost(RemoteFailed):
    """No usable answer came (reset, time-out, 5xx): what was asked for may have happened or not."""


@contextmanager
def network(host: str) -> Iterator[None]:
    """What requests raises in the block, as AnswerLost where another try may help, else as RemoteFailed."""
    try:
        yield
    except requests.exceptions.SSLError as error:
        if _cause(error, ssl.SSLEOFError) or _cause(error, ssl.SSLZeroReturnError):
            raise AnswerLost(f"the connection to {host} was cut", "run again") from None
        reason = _cause(error, ssl.SSLError)
        detail = shown(str(getattr(reason, "verify_message", "") or getattr(reason, "reason", "") or "TLS failed"))
        raise RemoteFailed(
            f"no secure connection to {host}: {detail}",
            "for a certificate authority of your own set REQUESTS_CA_BUNDLE to its file",
        ) from None
    except requests.exceptions.ConnectTimeout:
        raise AnswerLost(f"{host} could not be reached within {CONNECT_TIMEOUT:.0f} seconds", "run again") from None
    except requests.exceptions.Timeout:
        raise AnswerLost(f"{host} did not answer in time", "run again") from None
    except requests.exceptions.ProxyError:
        raise AnswerLost(f"the proxy on the way to {host} failed", "check HTTPS_PROXY and NO_PROXY") from None
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
        reason = _cause(error, OSError)
        detail = (reason.strerror if isinstance(reason, OSError) else "") or "the connection was cut"
        raise AnswerLost(f"{host} could not be reached: {shown(detail)}", "run again") from None
    except requests.exceptions.RequestException as error:
        raise RemoteFailed(f"{host} could not be asked: {type(error).__name__}", "check GITHUB_API_URL") from None


def _cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The innermost exception of ``kind`` behind ``error`` that is not one of requests' own."""
    pending: list[object] = [error]
    found: BaseException | None = None
    for _ in range(32):
        if not pending:
            break
        current = pending.pop()
        if isinstance(current, BaseException):
            if isinstance(current, kind) and not isinstance(current, requests.exceptions.RequestException):
                found = current
            pending += [current.__cause__, current.__context__, getattr(current, "reason", None), *current.args]
    return found
