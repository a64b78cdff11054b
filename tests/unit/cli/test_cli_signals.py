"""A loop that sleeps wakes for a signal, and one that works is told when it is done."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from vibey_actions.cli.signals import Interrupted, Stop


def test_a_signal_ends_the_sleep() -> None:
    """The wait of `--every` ends with the signal, not with its time."""
    began = time.monotonic()
    with Stop.listening() as stop:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        stop.wait(600)
        assert stop.asked
    assert time.monotonic() - began < 600


def test_a_signal_before_the_sleep_is_not_lost() -> None:
    """A signal between the question and the wait still ends the wait at once."""
    began = time.monotonic()
    with Stop.listening() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        stop.wait(600)
    assert time.monotonic() - began < 600


def test_the_sleep_lasts_without_a_signal() -> None:
    """Without a signal the wait takes its time."""
    began = time.monotonic()
    with Stop.listening() as stop:
        stop.wait(0.05)
        assert not stop.asked
    assert time.monotonic() - began >= 0.05


def test_the_second_signal_does_not_wait() -> None:
    """Who asks twice means now."""
    with Stop.listening():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted, match="SIGTERM"):
            os.kill(os.getpid(), signal.SIGTERM)
