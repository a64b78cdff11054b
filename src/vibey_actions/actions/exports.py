"""Which exports a write takes up: their names, the marks of those that were taken up before, and the choice. Pure.

An export is the artifact ``PREFIX-export-RUN-ATTEMPT-JOB-SHA256``; one that was taken up has a mark, the artifact
``PREFIX-taken-SHA256`` of the run that did it. Only artifacts of this repository's own code count, marks included: a
fork could name its own so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from vibey_actions.errors import ArtifactGone, ArtifactUnusable, SettingError
from vibey_actions.remotes.artifacts import Artifact

MOST: Final = 5
"""How many exports one step takes up: action.yml has as many steps that upload a mark."""
MARK_DAYS: Final = 90
"""How long a mark is kept: as long as GitHub keeps anything, so no shorter than the export."""

_EXPORT: Final = re.compile(
    r"-export-(?P<run>[0-9]{1,20})-(?P<attempt>[0-9]{1,9})-(?P<job>.+)-(?P<sha256>[0-9a-f]{64})"
)
_TAKEN: Final = re.compile(r"-taken-(?P<sha256>[0-9a-f]{64})")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_JOB: Final = 56
_AGAIN: Final = "-again"


def export_name(prefix: str, *, run_id: str, attempt: str, job: str, sha256: str, again: bool = False) -> str:
    """The name of an export's artifact: unique to run, attempt, job and content, and made of harmless characters.

    With ``again`` another one, for the upload after one that failed: GitHub takes no name twice that was begun once.
    """
    more = _AGAIN if again else ""
    part = (_UNSAFE.sub("-", job) or "job")[: _LONGEST_JOB - len(more)] + more
    return f"{prefix}-export-{run_id or '0'}-{attempt}-{part}-{sha256}"


def mark_name(prefix: str, sha256: str) -> str:
    """The name of the mark that an export was taken up, or given up."""
    return f"{prefix}-taken-{sha256}"


@dataclass(frozen=True, slots=True)
class Export:
    """An artifact whose name says that it is an export, and what else its name says."""

    artifact: Artifact
    run_id: str
    attempt: str
    job: str
    sha256: str

    @property
    def name(self) -> str:
        return self.artifact.name


@dataclass(frozen=True, slots=True)
class Found:
    """The exports of this repository's own runs, oldest first, and the digests that are marked."""

    exports: Sequence[Export]
    marked: frozenset[str]
    prefix: str


def sort_out(prefix: str, artifacts: Iterable[Artifact]) -> Found:
    """The exports and marks among ``artifacts``; whatever else there is counts for nothing."""
    exports: dict[int, Export] = {}
    marked: set[str] = set()
    for artifact in artifacts:
        if not artifact.own or not artifact.name.startswith(prefix):
            continue
        rest = artifact.name[len(prefix) :]
        if taken := _TAKEN.fullmatch(rest):
            marked.add(taken["sha256"])
        # What an artifact's name says of its run has to be so, or it is none of ours.
        elif (named := _EXPORT.fullmatch(rest)) and named["run"] == artifact.run_id:
            exports[artifact.number] = Export(artifact, named["run"], named["attempt"], named["job"], named["sha256"])
    ordered = sorted(exports.values(), key=lambda one: (one.artifact.created, one.artifact.number))
    return Found(ordered, frozenset(marked), prefix)


@dataclass(frozen=True, slots=True)
class Wanted:
    """``own_run`` is the run that this step is in, ``export`` the one that has to be there; ``run_id`` narrows."""

    own_run: str = ""
    export: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """``taken`` are taken up now, oldest first; ``left`` wait for the next write; ``lost`` expired unwritten.

    ``done`` says of a named export or run that all of it was taken up before.
    """

    taken: Sequence[Export] = ()
    left: Sequence[Export] = ()
    lost: Sequence[Export] = ()
    done: bool = False


def choose(found: Found, wanted: Wanted, everywhere: Iterable[Artifact] = ()) -> Choice:
    """What to take up: what was named first, then this run's own, then the oldest; never more than MOST.

    ``everywhere`` are the artifacts that have the wanted export's name. Raises SettingError for a name that is no
    export's, ArtifactGone where what was named is not there or has expired, ArtifactUnusable where it is a fork's.
    """
    named = _named(found, wanted, everywhere) if wanted.export else None
    within = [one for one in found.exports if not wanted.run_id or one.run_id == wanted.run_id]
    if wanted.run_id and not within:
        raise ArtifactGone(
            f"the run {wanted.run_id} has no export",
            "look at the run's artifacts: either nothing was changed in it, or it was exported under another "
            f"artifact-prefix than {found.prefix}",
        )
    unmarked = [one for one in within if one.sha256 not in found.marked]
    waiting = _each_once([one for one in unmarked if not one.artifact.expired], named)
    kept = {one.sha256 for one in waiting}
    lost = _each_once([one for one in unmarked if one.artifact.expired and one.sha256 not in kept], named)
    if wanted.run_id and lost and not waiting:
        raise _expired(lost[0])
    if named is not None and wanted.run_id:
        waiting, lost = [one for one in waiting if one == named], []
    first = sorted(waiting, key=lambda one: (one != named, one.run_id != wanted.own_run))
    taken = [one for one in waiting if one in first[:MOST]]
    done = bool(wanted.export or wanted.run_id) and not taken
    return Choice(taken, [one for one in waiting if one not in taken], lost, done)


def _each_once(exports: Sequence[Export], named: Export | None) -> list[Export]:
    """One artifact for every content, that which was named before others: an upload that failed may have arrived."""
    first: dict[str, Export] = {}
    for one in sorted(exports, key=lambda one: one != named):
        first.setdefault(one.sha256, one)
    return [one for one in exports if first[one.sha256] is one]


def _named(found: Found, wanted: Wanted, everywhere: Iterable[Artifact]) -> Export:
    """The export that the caller named. It may be marked, but it has to be there."""
    if not _EXPORT.fullmatch(wanted.export.removeprefix(found.prefix)):
        raise SettingError(
            f"the input export is {wanted.export}, which is not the name of an export under the prefix {found.prefix}",
            "hand on the output `export` of the step close, and give both steps the same artifact-prefix",
        )
    for one in found.exports:
        if one.name == wanted.export:
            if one.artifact.expired and one.sha256 not in found.marked:
                raise _expired(one)
            return one
    if any(artifact.name == wanted.export for artifact in everywhere):
        raise ArtifactUnusable(
            f"the artifact {wanted.export} was made by another repository's code, or by another run than it says",
            "nothing of it was looked at: only exports of this repository's own runs are written",
        )
    raise ArtifactGone(
        f"there is no artifact {wanted.export}",
        "it was deleted, or the job that should have uploaded it did not come that far; the branch was not changed",
    )


def _expired(export: Export) -> ArtifactGone:
    return ArtifactGone(
        f"the artifact {export.name} of run {export.run_id} has expired before it was written to the branch",
        "what it held is lost; run that job again, give exports more retention-days, and end this report with "
        f"discard: {export.sha256}",
    )


@dataclass(frozen=True, slots=True)
class Discarded:
    """``given_up`` get a mark now; ``before`` have one already."""

    given_up: Sequence[Export] = field(default_factory=tuple)
    before: Sequence[str] = field(default_factory=tuple)


def discard(found: Found, digests: Sequence[str]) -> Discarded:
    """The exports to give up. Raises SettingError for more than one step can mark, ArtifactGone for unknown ones."""
    if len(digests) > MOST:
        raise SettingError(
            f"the input discard names {len(digests)} exports, more than one step gives up", f"name up to {MOST} at once"
        )
    known = {one.sha256: one for one in found.exports}
    unknown = [digest for digest in digests if digest not in known and digest not in found.marked]
    if unknown:
        raise ArtifactGone(
            f"there is no export with the SHA-256 {', '.join(unknown)}", "the summary of write-back names each by it"
        )
    marked = [digest for digest in digests if digest in found.marked]
    return Discarded([known[digest] for digest in digests if digest not in marked], marked)
