"""Any program that posts: the document in, a result with ``mediaId`` and ``permalink`` out.

Exit 75 says that nothing was posted. After any other end than a success nobody but the program knows what it did, so
that is an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vibey_actions.documents.declare import Part
from vibey_actions.documents.fetch import Fetcher
from vibey_actions.documents.model import text_of
from vibey_actions.documents.publishers.base import Direct, Post, in_time, lost, passing, posted
from vibey_actions.documents.steps.base import Work
from vibey_actions.documents.steps.command import How, Program
from vibey_actions.documents.steps.surroundings import Surroundings

_SETTINGS = ("publisher", "command", "variables", "deadline")


@dataclass(frozen=True)
class CommandPublisher(Direct):
    """One program of the adopter's."""

    program: Program

    @classmethod
    def make(cls, part: Part, surroundings: Surroundings, fetcher: Fetcher) -> CommandPublisher:  # noqa: ARG003
        """From the settings ``command``, ``variables``, ``deadline``. Raises MachineInvalid."""
        part.known(_SETTINGS)
        return cls(Program.read(part, surroundings))

    def problem(self, post: Post) -> str | None:
        return None if post.caption.strip() or post.images else "it has neither a caption nor an image"

    def publish(self, post: Post, work: Work) -> Mapping[str, str]:  # noqa: ARG002
        in_time(work)
        answer = self.program.run(work)
        if answer.how is How.AGAIN:
            raise passing(answer.reason)
        if answer.how is not How.RESULT:
            raise lost(answer.reason)
        return posted(self.program.masker, text_of(answer.fields, "mediaId"), text_of(answer.fields, "permalink"))
