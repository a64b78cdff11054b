"""What the server answers: a status, headers and a body, and the refusals GitHub is known for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    """One answer. ``body`` is sent as it is; a refusal is raised as Refusal."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class Refusal(Exception):
    """An answer that a handler gives up with."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.reply = as_json({"message": message, "documentation_url": "https://docs.example/rest"}, status)
        self.reply.headers.update({name.replace("_", "-"): value for name, value in headers.items()})


def as_json(data: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(data).encode(), {"Content-Type": "application/json; charset=utf-8"})


def not_found() -> Refusal:
    return Refusal(404, "Not Found")
