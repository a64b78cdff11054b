"""What a run of act was: results, outputs, summaries, annotations and every text, out of its JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

LEVELS = ("error", "warning", "notice", "debug")
HANDED = ("VIBEY_PG_URL", "VIBEY_STATE_PG_URL")
SHORTEST = 8


@dataclass(frozen=True)
class Annotation:
    """A line on the run's page: ``::error title=...::text``."""

    level: str
    title: str
    text: str


class Outcome:
    """A run that ended. Jobs are named by their id, that of a called workflow by its own."""

    def __init__(self, lines: str, said: str, code: int) -> None:
        self.code = code
        self.said = said
        self.records: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]

    @property
    def jobs(self) -> dict[str, list[str]]:
        """The results of every job that ran; a matrix has several. One that was skipped is not among them."""
        found: dict[str, list[str]] = {}
        for record in self.records:
            if "jobResult" in record:
                found.setdefault(record["jobID"], []).append(record["jobResult"])
        return found

    def result(self, job: str) -> str:
        """The result of a job that ran once."""
        (result,) = self.jobs.get(job, ["skipped"])
        return result

    def step(self, step: str, job: str | None = None) -> str:
        """The result of a step, by its id or its name."""
        results = {
            record["stepResult"]
            for record in self._of(job)
            if "stepResult" in record
            and record.get("stage", "Main") == "Main"
            and (record.get("stepID", [None])[-1] == step or record.get("step") == step)
        }
        if not results:
            return "skipped"
        (result,) = results
        return str(result)

    def outputs(self, step: str, job: str | None = None) -> dict[str, str]:
        """The outputs of a step of the workflow, by its id."""
        return {
            record["name"]: record["arg"]
            for record in self._of(job)
            if record.get("command") == "set-output" and record.get("stepID") == [step]
        }

    def variables(self, job: str | None = None) -> dict[str, str]:
        """What steps wrote to GITHUB_ENV."""
        return {one["name"]: one["arg"] for one in self._of(job) if one.get("command") == "set-env"}

    def summary(self, job: str | None = None) -> str:
        """The summaries of all steps, one after the other."""
        return "\n".join(one["content"] for one in self._of(job) if one.get("command") == "summary")

    def annotations(self, level: str | None = None, job: str | None = None) -> list[Annotation]:
        """Errors, warnings and notices, in order."""
        return [
            Annotation(one["command"], one.get("kvPairs", {}).get("title", ""), one["arg"])
            for one in self._of(job)
            if one.get("command") in LEVELS and level in {None, one["command"]}
        ]

    def masks(self, job: str | None = None) -> list[str]:
        """What was masked."""
        return [one["arg"] for one in self._of(job) if one.get("command") == "add-mask"]

    def log(self, job: str | None = None) -> str:
        """What the steps printed. Nothing is hidden in it, whatever was masked."""
        return "".join(one["msg"] for one in self._of(job) if one.get("raw_output"))

    def leaks(self, secrets: Iterable[str]) -> list[str]:
        """Where one of ``secrets`` stands, masked or not. GITHUB_ENV may hand the connection strings to later steps."""
        texts = [("act itself", self.said)]
        for record in self.records:
            handed = record.get("command") == "set-env" and record.get("name") in HANDED
            if record.get("command") != "add-mask" and not handed:
                where = f"{record.get('jobID')}, {record.get('step', '')[:60]}, {record.get('command', 'log')}"
                texts.append((where, json.dumps(record, ensure_ascii=False)))
        # A JSON text writes some characters in another way, and a masked part of one may stand in it as well.
        forms = {form for one in secrets if len(one) >= SHORTEST for form in (one, json.dumps(one)[1:-1])}
        return sorted({where for where, text in texts for form in forms if form in text})

    def explain(self) -> str:
        """The run for a person who looks at a failed test."""
        lines = [f"exit code {self.code}, jobs {self.jobs}", self.said]
        for record in self.records:
            lines.append(f"{record.get('jobID', '')}: {record.get('content', record.get('msg', '')).rstrip()}")
        return "\n".join(lines)

    def _of(self, job: str | None) -> Iterator[dict[str, Any]]:
        return (record for record in self.records if job in {None, record.get("jobID")})
