"""GitHub's side: the repository, what the token may do, rules on the branch, the clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vibey_actions.checks.facts import CLOCK_TOLERANCE, Facts
from vibey_actions.checks.finding import Finding, note, ok, problem, unknown
from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.inspection import BranchRule

_HARMLESS: Final = frozenset(
    {"deletion", "non_fast_forward", "required_linear_history", "tag_name_pattern", "copilot_code_review"}
)
"""A push moves the branch forward by one commit with one parent, and never deletes it."""
_MAY_PASS: Final = frozenset(
    {
        "required_signatures",
        "commit_message_pattern",
        "commit_author_email_pattern",
        "committer_email_pattern",
        "branch_name_pattern",
        "file_path_restriction",
        "file_extension_restriction",
        "max_file_path_length",
        "max_file_size",
    }
)
"""What they say of a commit named "Update vibey state", of one file, decides."""
_WRITE_CURE: Final = (
    "give the token contents: write (a fine-grained token: Contents, read and write; a workflow's job: "
    "permissions: contents: write)"
)


def repository(facts: Facts) -> Iterator[Finding]:
    """Whether the repository can be read, and what of it bears on the state."""
    if not facts.on_github:
        return
    found = facts.repository()
    visibility = "private" if found.private else "public"
    yield ok("repository", f"{found.name} is {visibility} and can be read")
    if found.name.lower() != facts.inspection().name.lower():
        yield note(
            "repository",
            f"{facts.inspection().name} has been renamed to {found.name}, and writes are not redirected",
            f"set VIBEY_STATE_REPOSITORY to {found.name}",
        )
    if found.default_branch == facts.settings().branch:
        yield problem(
            "repository",
            f"{found.default_branch} is the default branch, which is never a state branch",
            "name another one in VIBEY_STATE_BRANCH",
        )
    if not found.private and not facts.config().public:
        yield note(
            "repository",
            "the repository is public, so its workflows never open the state",
            "declare [state] public = true in .github/vibey-state.toml where everyone may read what they print",
        )


def token(facts: Facts) -> Iterator[Finding]:
    """Whether the token may write contents, asked of GitHub without writing any."""
    if not facts.on_github:
        return
    facts.repository()
    inspection = facts.inspection()
    if not inspection.has_token:
        yield problem(
            "token",
            "there is no token, so nothing can be pushed",
            "set GH_TOKEN, or log in with `gh auth login`",
        )
        return
    try:
        told = inspection.may_write()
    except RemoteFailed as error:
        yield unknown("token", f"whether the token may write is not known: {error.message}", error.hint)
        return
    if told.answer is None:
        yield unknown("token", f"whether the token may write is not known ({told.words})", _WRITE_CURE)
    elif told.answer:
        yield ok("token", "the token may write contents")
    else:
        yield problem("token", f"the token may not write contents ({told.words})", _WRITE_CURE)


def rules(facts: Facts) -> Iterator[Finding]:
    """Rulesets and protections that cover the branch."""
    if not facts.on_github:
        return
    facts.repository()
    found = list(_rulesets(facts))
    found += _protection(facts)
    yield from found or [ok("rules", f"no rule stands in the way of the branch {facts.settings().branch}")]


def _rulesets(facts: Facts) -> Iterator[Finding]:
    branch = facts.settings().branch
    try:
        active = facts.inspection().rules(branch)
    except RemoteFailed as error:
        yield unknown("rules", f"rulesets could not be asked for: {error.message}", error.hint)
        return
    exists = facts.head() is not None
    for rule in active:
        if rule.kind not in _HARMLESS and not (rule.kind == "creation" and exists):
            yield _ruling(rule, branch)


def _ruling(rule: BranchRule, branch: str) -> Finding:
    text = f"the rule {rule.kind} of the {rule.source} covers the branch {branch}"
    cure = f"exclude the branch {branch} from the ruleset"
    if rule.bypass:
        return note("rules", f"{text}; this token may go past it, a workflow's own token may not", cure)
    if rule.kind in _MAY_PASS:
        return note("rules", f"{text} and may refuse a push", cure)
    return problem("rules", f"{text} and refuses a push", cure)


def _protection(facts: Facts) -> list[Finding]:
    branch = facts.settings().branch
    try:
        covered, stopping = facts.inspection().protection(branch)
    except RemoteFailed as error:
        return [unknown("rules", f"branch protection could not be asked for: {error.message}", error.hint)]
    cure = f"take the branch {branch} out of the protection"
    if stopping is None:
        return [unknown("rules", f"the branch {branch} is protected, and this token is not told by what", cure)]
    if covered and stopping:
        return [
            problem("rules", f"the branch {branch} is protected by {', '.join(stopping)}, which refuses a push", cure)
        ]
    return []


def clock(facts: Facts) -> Iterator[Finding]:
    """This machine's clock against GitHub's."""
    if not facts.on_github:
        return
    skew = facts.repository().skew
    if skew is None:
        yield unknown("clock", "GitHub did not tell its time")
    elif abs(skew) > CLOCK_TOLERANCE:
        yield note("clock", f"this machine's clock is {_off(skew)} GitHub's", "set the clock, for example by NTP")
    else:
        yield ok("clock", "this machine's clock is that of GitHub")


def _off(skew: float) -> str:
    return f"{abs(skew):.0f} seconds {'behind' if skew > 0 else 'ahead of'}"
