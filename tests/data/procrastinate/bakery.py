"""A program that uses procrastinate, as its documentation shows: an app, a task, and a few things to do with them."""

from __future__ import annotations

import os
import sys

from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["BAKERY_PG_URL"]))


@app.task(name="bake", queue="oven", retry=2)
def bake(loaf: str, weight: float) -> str:
    """A job's work."""
    return f"{loaf} of {weight} kg"


def main(action: str, *arguments: str) -> None:
    """``defer LOAF...``, ``later LOAF``, ``work`` (until the queue is empty) or ``cancel ID``."""
    if action == "work":
        app.run_worker(wait=False, install_signal_handlers=False, listen_notify=False, delete_jobs="never")
        return
    with app.open():
        if action == "defer":
            for loaf in arguments:
                bake.configure(lock=loaf, priority=len(loaf)).defer(loaf=loaf, weight=1.25)
        elif action == "later":
            bake.configure(schedule_in={"days": 3}, queueing_lock="later").defer(loaf=arguments[0], weight=0.5)
        elif action == "cancel":
            app.job_manager.cancel_job_by_id(int(arguments[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
