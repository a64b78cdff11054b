"""Blobs in pieces: the JSON that goes out and the JSON that comes back."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.blobs import BlobBody, decode_blob


def pieces(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 196_607, 196_608, 196_609, 400_000])
def test_the_body_of_an_upload(tmp_path: Path, size: int) -> None:
    """It is the JSON GitHub takes, as long as it said before, and knows the blob's name afterwards."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(size))
    body = BlobBody(source, size, "sha1")
    sent = b"".join(body)
    assert len(sent) == len(body)
    data = json.loads(sent)
    assert data["encoding"] == "base64"
    assert base64.b64decode(data["content"], validate=True) == source.read_bytes()
    assert body.name == hashlib.sha1(b"blob %d\0" % size + source.read_bytes()).hexdigest()  # noqa: S324


@pytest.mark.parametrize("announced", [9, 11])
def test_a_file_that_changes_while_it_is_sent(tmp_path: Path, announced: int) -> None:
    """A file that grew or shrank is not sent as if it were whole."""
    source = tmp_path / "source"
    source.write_bytes(b"x" * 10)
    body = BlobBody(source, announced, "sha1")
    with pytest.raises(RemoteFailed, match="changed"):
        b"".join(body)
    assert body.name == ""


def wrapped(content: bytes) -> str:
    text = base64.b64encode(content).decode()
    return "".join(text[at : at + 60] + "\n" for at in range(0, len(text), 60))


@given(content=st.binary(max_size=300), size=st.integers(1, 200), order=st.permutations(range(6)), indent=st.booleans())
def test_an_answer_in_pieces(*, content: bytes, size: int, order: list[int], indent: bool) -> None:
    """Wherever the content stands and however the answer is cut and spaced, the bytes are the same."""
    members: list[tuple[str, object]] = [
        ("sha", "a" * 40),
        ("node_id", 'odd "quoted\\" \\ text\\\\'),
        ("size", -1.5e10),
        ("truncated", None),
        ("content", wrapped(content)),
        ("encoding", "base64"),
    ]
    text = json.dumps(dict(members[at] for at in order), indent=2 if indent else None).encode()
    assert b"".join(decode_blob(pieces(text, size))) == content


BROKEN = {
    "cut": '{"encoding":"base64","content":"QUJD',
    "cut before": '{"encoding":"base64"',
    "no content": '{"encoding":"base64"}',
    "no encoding": '{"content":"QUJD"}',
    "another encoding": '{"encoding":"none","content":""}',
    "utf-8": '{"encoding":"utf-8","content":"QUJD"}',
    "not base64": '{"encoding":"base64","content":"QU*D"}',
    "bad padding": '{"encoding":"base64","content":"QUI"}',
    "padding inside": '{"encoding":"base64","content":"QQ==QUJD"}',
    "another escape": '{"encoding":"base64","content":"QU\\u004aD"}',
    "a quote": '{"encoding":"base64","content":"QU\\"D"}',
    "a list": "[]",
    "nested": '{"encoding":"base64","x":{"content":"QUJD"}}',
    "nothing": "",
    "endless member": '{"x":"' + "y" * 200_000 + '"}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_broken_answer(text: str, size: int) -> None:
    """An answer that is not the JSON of a blob is an error in words, never part of the bytes as if they were all."""
    with pytest.raises(RemoteFailed):
        b"".join(decode_blob(pieces(text.encode(), size)))
