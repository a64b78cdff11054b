"""Every error a user can meet: what failed, why, what mends it, under a stable code.

One base class. ``code`` is the contract of ``--json`` output, ``exit_code`` that of the shell: 1 for a conflict, a
refusal or a failure, 2 for a setting that cannot be used. No message ever holds a key, a password, a token or the
values of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from vibey_actions.state.report import Conflict


class VibeyError(Exception):
    """Base of all errors that are said to a user.

    ``message`` says what failed and why, in one line; ``hint`` says what to do (may be empty).
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SettingError(VibeyError):
    """A setting, an option or the configuration file cannot be used."""

    code = "setting"
    exit_code = 2


class KeyMissing(SettingError):
    """No key was found where one is looked for."""

    code = "key-missing"


class KeyUnusable(SettingError):
    """The key that was found is not 32 bytes of base64, or its file can be read by others."""

    code = "key-unusable"


class KeyExists(VibeyError):
    """A key exists already and is never replaced."""

    code = "key-exists"


class KeyWithheld(VibeyError):
    """A key is neither made nor shown inside a GitHub Actions run."""

    code = "key-withheld"


class Unreadable(VibeyError):
    """A sealed state does not open or is not what it has to be: wrong key, cut, changed, foreign or malformed."""

    code = "unreadable"


class WrongKey(Unreadable):
    """A sealed state is whole in form but does not authenticate under this key."""

    code = "wrong-key"


class Conflicts(VibeyError):
    """Rows that both ends changed and no rule settles; nothing was written at either end.

    ``conflicts`` names every such row: table, key, why, and what to do.
    """

    code = "conflict"

    def __init__(self, message: str, hint: str = "", conflicts: Sequence[Conflict] = ()) -> None:
        super().__init__(message, hint)
        self.conflicts = tuple(conflicts)


class SchemaMismatch(VibeyError):
    """The two ends have applied different migrations, or know different tables or columns."""

    code = "schema-mismatch"


class RowRefused(VibeyError):
    """A table, column or value cannot be carried exactly; it is named, and nothing was written."""

    code = "row-refused"


class TableRefused(VibeyError):
    """A table cannot be synced as it is (no primary key, not declared, no longer synced)."""

    code = "table-refused"


class DatabaseFailed(VibeyError):
    """PostgreSQL could not be reached or refused an operation."""

    code = "database"


class StateMoved(VibeyError):
    """A row changed here between the read and the apply; the cycle starts again."""

    code = "state-moved"


class RemoteFailed(VibeyError):
    """The remote refused an operation or could not be reached."""

    code = "remote"


class RemoteMoved(RemoteFailed):
    """The branch moved between the read and the push; the cycle starts again."""

    code = "remote-moved"


class RemoteDenied(RemoteFailed):
    """The remote refuses this caller for good: token, permission or a rule on the branch."""

    code = "remote-denied"


class RateLimited(RemoteFailed):
    """The remote asks to wait longer than a run can."""

    code = "rate-limited"


class TooLarge(RemoteFailed):
    """The sealed state is larger than the remote takes."""

    code = "too-large"


class NotAStateBranch(RemoteFailed):
    """The branch exists but is not a state branch, or is the repository's default branch."""

    code = "not-a-state-branch"


class BranchGone(RemoteFailed):
    """The branch is gone while this database has agreed with a commit of it."""

    code = "branch-gone"


class BranchRewritten(RemoteFailed):
    """The commit this database agreed with is no ancestor of the branch's head."""

    code = "branch-rewritten"


class RolledBack(RemoteFailed):
    """The head holds a sealed file that an earlier commit of the branch already held."""

    code = "rolled-back"


class TooFarBehind(RemoteFailed):
    """The branch moved by more commits than are looked through to tell whether it held an export before."""

    code = "too-far-behind"


class ArtifactGone(RemoteFailed):
    """An export that was asked for has expired, was deleted, or never was there; it is never read as an empty state."""

    code = "artifact-gone"


class ArtifactUnusable(RemoteFailed):
    """An artifact is not the export that its name says: cut, damaged, too large, or of another content."""

    code = "artifact-unusable"


class TooManyDeletes(VibeyError):
    """A sync would delete more rows than ``--max-deletes`` allows."""

    code = "too-many-deletes"


class Busy(VibeyError):
    """Another sync or migration of this database is running and did not end in time."""

    code = "busy"


class GaveUp(VibeyError):
    """The state or the branch moved on every attempt."""

    code = "gave-up"


class ImportRefused(VibeyError):
    """An export cannot be imported into this database."""

    code = "import-refused"


class MigrationFailed(VibeyError):
    """A migration could not be applied, or an applied one has changed."""

    code = "migration"


class FileFailed(VibeyError):
    """A local file cannot be read or written."""

    code = "file"


class ServiceFailed(VibeyError):
    """The service manager of this machine refused, or is not there."""

    code = "service"


class ScratchRefused(DatabaseFailed):
    """No scratch database can be made to lift an older state in."""

    code = "scratch"


class DocumentInvalid(VibeyError):
    """A document, its id or a selector cannot be stored or used as it is."""

    code = "document-invalid"


class DocumentMissing(VibeyError):
    """There is no document with this id where it was looked for."""

    code = "document-missing"


class DocumentConflict(VibeyError):
    """Somebody else has written the document since it was read.

    ``current_rev`` is the revision it has now; None where the document is gone, or the store has no revisions.
    """

    code = "document-conflict"

    def __init__(self, message: str, hint: str = "", current_rev: str | None = None) -> None:
        super().__init__(message, hint)
        self.current_rev = current_rev


class DocumentDenied(VibeyError):
    """The document's machine, or the access function of its store, forbids this write."""

    code = "document-denied"


class OutcomeUnknown(VibeyError):
    """A write was sent, and nothing tells whether it took effect."""

    code = "outcome-unknown"


class StoreFailed(VibeyError):
    """The store of documents cannot be reached or failed; what was asked for was not done."""

    code = "store"


class MachineInvalid(SettingError):
    """A machine, or the file that declares machines, cannot be used; nothing was walked."""

    code = "machine"


class GateClosed(VibeyError):
    """The gate stayed closed for a step that needs the state: no key, or a public repository that declares nothing."""

    code = "gate-closed"


class StepRefused(VibeyError):
    """A step of the action cannot follow what this job did before it."""

    code = "step-refused"


class RunUnfinished(RemoteFailed):
    """A run that was dispatched is not listed, or has not ended, within the time that was given."""

    code = "run-unfinished"


class CommandReserved(SettingError):
    """A command that was dispatched touches the state or its key; nothing was started."""

    code = "command-reserved"
