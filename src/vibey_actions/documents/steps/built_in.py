"""The steps that declarations name: ``build``, ``publish-request``, ``command``, ``daily``.

Each is loaded when a machine uses it, so that a lane without posts loads no network.
"""

from __future__ import annotations

from vibey_actions.documents.machine import Machine
from vibey_actions.documents.steps.base import Registry, Step
from vibey_actions.documents.steps.surroundings import Surroundings


def registry(surroundings: Surroundings) -> Registry:
    """The steps that there are, for machines walked in these surroundings. Making one raises MachineInvalid."""

    def build(machine: Machine) -> Step:
        from vibey_actions.documents.steps.build import BuildStep

        return BuildStep.make(machine, surroundings)

    def publish(machine: Machine) -> Step:
        from vibey_actions.documents.steps.publish import PublishStep

        return PublishStep.make(machine, surroundings)

    def command(machine: Machine) -> Step:
        from vibey_actions.documents.steps.command import CommandStep

        return CommandStep.make(machine, surroundings)

    def daily(machine: Machine) -> Step:
        from vibey_actions.documents.steps.daily import DailyStep

        return DailyStep.make(machine, surroundings)

    return Registry({"build": build, "publish-request": publish, "command": command, "daily": daily})
