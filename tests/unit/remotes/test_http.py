"""One request at a time, with the network replaced: time-outs, headers, errors in words."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import requests
import responses

from vibey_actions.errors import RateLimited, RemoteFailed
from vibey_actions.remotes.blobs import BlobBody
from vibey_actions.remotes.http import Api, Refused, json_body, patience
from vibey_actions.remotes.network import AnswerLost

ROOT = "https://api.example.com/api/v3"


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def api(slept: list[float]) -> Api:
    return Api(ROOT, "the-token", notice=lambda _: None, wait_cap=60, sleep=slept.append)


@responses.activate
def test_what_is_sent(api: Api) -> None:
    """The token, the version of the API and who we are."""
    responses.get(f"{ROOT}/x", json={"a": 1})
    assert api.get("x").data == {"a": 1}
    headers = responses.calls[0].request.headers
    assert headers["Authorization"] == "Bearer the-token"
    assert headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert headers["Accept"] == "application/vnd.github+json"
    assert str(headers["User-Agent"]).startswith("vibey-actions/")


def test_time_outs_grow_with_the_size(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ten seconds to connect; thirty and one for each 100 kB to answer, so that 10 MB have over two minutes."""
    seen: list[Any] = []

    def request(*_: object, **options: Any) -> requests.Response:
        seen.append(options["timeout"])
        raise requests.exceptions.ReadTimeout

    monkeypatch.setattr(api._session, "request", request)
    with pytest.raises(AnswerLost):
        api.send("PATCH", "x", json_body({}), again=False)
    with pytest.raises(AnswerLost):
        api.send("POST", "x", json_body({}), size=10_000_000, again=False)
    assert seen == [(10.0, 30.0), (10.0, 130.0)]
    assert patience(100_000_000) > 1000


@responses.activate
@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
def test_a_server_in_trouble_is_asked_four_times(api: Api, slept: list[float], status: int) -> None:
    """With pauses of about half a second, one and two, never the same for everybody."""
    responses.get(f"{ROOT}/x", status=status, json={"message": "Server Error"})
    with pytest.raises(AnswerLost, match=f"{status}: Server Error"):
        api.get("x")
    assert len(responses.calls) == 4
    for pause, base in zip(slept, (0.5, 1, 2), strict=True):
        assert base <= pause <= base * 1.5


@responses.activate
def test_what_must_not_be_done_twice_is_sent_once(api: Api) -> None:
    """A request that is not to be repeated is not."""
    responses.patch(f"{ROOT}/x", status=502)
    with pytest.raises(AnswerLost):
        api.send("PATCH", "x", json_body({}), again=False)
    assert len(responses.calls) == 1


@responses.activate
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 415, 422, 451])
def test_a_refusal_is_not_repeated(api: Api, slept: list[float], status: int) -> None:
    """What the server refuses it refuses again; its words and their parts are passed on."""
    parts = ["because", {"message": "of this"}, {"code": "x"}, 1]
    responses.get(f"{ROOT}/x", status=status, json={"message": "No", "errors": parts})
    with pytest.raises(Refused) as caught:
        api.get("x")
    assert (caught.value.status, caught.value.words) == (status, "No; because; of this")
    assert len(responses.calls) == 1
    assert slept == []


@responses.activate
@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"message": 1}', b"\xff\xfe", b'{"errors": {"a": 1}}'])
def test_a_refusal_without_words(api: Api, body: bytes) -> None:
    """A refusal whose body is not what it should be is still a refusal."""
    responses.get(f"{ROOT}/x", status=422, body=body)
    with pytest.raises(Refused) as caught:
        api.get("x")
    assert caught.value.words == ""


@responses.activate
@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"{"])
def test_an_answer_that_is_not_json(api: Api, body: bytes) -> None:
    """200 with a proxy's page is no answer, and is not repeated."""
    responses.get(f"{ROOT}/x", body=body)
    with pytest.raises(RemoteFailed, match="not JSON"):
        api.get("x")
    assert len(responses.calls) == 1


@responses.activate
def test_an_answer_without_end(api: Api) -> None:
    """An answer is read up to a bound."""
    responses.get(f"{ROOT}/x", body=b"[" + b" " * (17 << 20) + b"]")
    with pytest.raises(RemoteFailed, match="larger than"):
        api.get("x")


CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")
CERTIFICATE.verify_message = "self-signed certificate in certificate chain"


def tls_error(reason: Exception) -> requests.exceptions.SSLError:
    """The error as requests nests it."""
    error = requests.exceptions.SSLError("HTTPSConnectionPool(host='x')")
    error.__cause__ = reason
    return error


@responses.activate
def test_a_certificate_error_is_final(api: Api) -> None:
    """It is not tried again, and the setting for an authority of one's own is named."""
    responses.get(f"{ROOT}/x", body=tls_error(CERTIFICATE))
    with pytest.raises(RemoteFailed, match="self-signed certificate") as caught:
        api.get("x")
    assert not isinstance(caught.value, AnswerLost)
    assert "REQUESTS_CA_BUNDLE" in caught.value.hint
    assert len(responses.calls) == 1


@responses.activate
def test_a_tls_connection_that_was_cut_is_lost(api: Api) -> None:
    """An end in the middle of TLS is a lost answer like any other."""
    responses.get(f"{ROOT}/x", body=tls_error(ssl.SSLEOFError(8, "EOF occurred in violation of protocol")))
    with pytest.raises(AnswerLost):
        api.get("x")
    assert len(responses.calls) == 4


LOST = [
    requests.exceptions.ConnectTimeout(),
    requests.exceptions.ReadTimeout(),
    requests.exceptions.ConnectionError(),
    requests.exceptions.ChunkedEncodingError(),
    requests.exceptions.ProxyError("http://user:password@proxy.example:3128"),
    requests.exceptions.ConnectionError(ConnectionResetError(104, "Connection reset by peer")),
]


@responses.activate
@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_lost_answers(api: Api, error: Exception) -> None:
    """Trouble of the network is tried again and then said, without what libraries put into their messages."""
    responses.get(f"{ROOT}/x", body=error)
    with pytest.raises(AnswerLost) as caught:
        api.get("x")
    assert "password" not in caught.value.message
    assert "api.example.com" in caught.value.message
    assert len(responses.calls) == 4


@responses.activate
def test_the_cause_of_a_lost_connection_is_said(api: Api) -> None:
    """The system's own words are found inside what the libraries raise."""
    responses.get(f"{ROOT}/x", body=LOST[-1])
    with pytest.raises(AnswerLost, match="Connection reset by peer"):
        api.get("x")


@responses.activate
@pytest.mark.parametrize("error", [requests.exceptions.InvalidURL(), requests.exceptions.InvalidProxyURL()])
def test_what_can_never_work_is_not_repeated(api: Api, error: Exception) -> None:
    """A URL that is none is an error at once."""
    responses.get(f"{ROOT}/x", body=error)
    with pytest.raises(RemoteFailed) as caught:
        api.get("x")
    assert not isinstance(caught.value, AnswerLost)


@responses.activate
def test_a_redirect_to_a_place_without_encryption(api: Api) -> None:
    """https is never left."""
    responses.get(f"{ROOT}/x", status=301, headers={"Location": "http://api.example.com/y"})
    with pytest.raises(RemoteFailed, match="without encryption"):
        api.get("x")


@responses.activate
def test_a_redirect_takes_the_token_only_to_the_same_host(api: Api) -> None:
    """Another host, or another port of it, gets none."""
    responses.get(f"{ROOT}/x", status=302, headers={"Location": "https://other.example.com/y"})
    responses.get("https://other.example.com/y", status=302, headers={"Location": "https://api.example.com:444/z"})
    responses.get("https://api.example.com:444/z", status=302, headers={"Location": "/back"})
    responses.get("https://api.example.com:444/back", json={})
    assert api.get("x").redirected
    assert ["Authorization" in call.request.headers for call in responses.calls] == [True, False, False, False]


@responses.activate
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_write_is_not_redirected(api: Api, status: int) -> None:
    """What would change something is never repeated elsewhere."""
    responses.post(f"{ROOT}/x", status=status, headers={"Location": f"{ROOT}/y"})
    with pytest.raises(Refused):
        api.send("POST", "x", json_body({}), again=True)
    assert len(responses.calls) == 1


@responses.activate
def test_a_limit_is_waited_for_even_where_nothing_is_repeated(api: Api, slept: list[float]) -> None:
    """A request that was turned away by a limit had no effect, so it is sent again after the wait."""
    responses.patch(f"{ROOT}/x", status=429, headers={"Retry-After": "2"})
    responses.patch(f"{ROOT}/x", json={"ok": True})
    assert api.send("PATCH", "x", json_body({}), again=False).data == {"ok": True}
    assert slept == [2]


@responses.activate
def test_a_limit_beyond_the_cap(api: Api) -> None:
    """It is an error of its own."""
    responses.get(f"{ROOT}/x", status=429, headers={"Retry-After": "61"})
    with pytest.raises(RateLimited):
        api.get("x")


@responses.activate
def test_a_body_is_made_anew_for_each_try(api: Api, tmp_path: Path) -> None:
    """After a failure the whole file is sent again, with the same length."""
    source = tmp_path / "source"
    source.write_bytes(b"x" * 1000)
    seen: list[bytes] = []

    def answer(request: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        seen.append(b"".join(request.body))  # type: ignore[arg-type]
        assert request.headers["Content-Length"] == str(len(seen[-1]))
        return (502 if len(seen) < 3 else 201), {}, "{}"

    responses.add_callback(responses.POST, f"{ROOT}/x", answer)
    api.send("POST", "x", lambda: BlobBody(source, 1000, "sha1"), size=1000, again=True)
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert json.loads(seen[0])["encoding"] == "base64"
