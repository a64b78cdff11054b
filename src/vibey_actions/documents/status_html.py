"""How the lanes stand, as one page: a file of its own, without scripts, links, images or anything fetched.

Whatever comes from documents is text: made visible, then escaped. The content security policy allows the page's one
style sheet, by its hash, and nothing else; so even a fault in the escaping runs and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator
from typing import Final

from vibey_actions.documents.model import iso
from vibey_actions.documents.status import Listed, MachineStatus, Sort, Status, age
from vibey_actions.text import visible

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c1b22; --soft: #5b5966; --page: #fbfbfe; --card: #fff; --line: #dcdbe4;
  --bad: #b3261e; --wait: #8a5a00; --good: #1f6f43; --busy: #3b4fc4; }
@media (prefers-color-scheme: dark) { :root { --ink: #ecebf2; --soft: #a9a7b6; --page: #17161c; --card: #201f27;
  --line: #3a3845; --bad: #ff8a80; --wait: #f2b84b; --good: #6fd19a; --busy: #a5b1ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 64rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; }
p { margin: .35rem 0; }
.soft { color: var(--soft); }
.bad { color: var(--bad); }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.5rem 0 0; padding: 0; list-style: none; }
.tiles li { flex: 1 1 8rem; padding: .75rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem; }
.tiles strong { display: block; font-size: 1.75rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.stuck strong, .failed strong { color: var(--bad); }
.held strong { color: var(--wait); }
.working strong { color: var(--busy); }
.none strong { color: var(--soft); }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: .5rem .85rem; text-align: left; vertical-align: top; }
tbody tr { border-top: 1px solid var(--line); }
thead th { font-size: .85rem; font-weight: 600; color: var(--soft); }
tbody th { font-weight: 500; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
article { margin: .75rem 0; padding: .85rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-left: .3rem solid var(--line); border-radius: .6rem; overflow-wrap: anywhere; }
article.stuck, article.failed { border-left-color: var(--bad); }
article.held { border-left-color: var(--wait); }
article.working { border-left-color: var(--busy); }
article h3 { margin: 0; font-size: 1rem; }
code { font: .9em ui-monospace, monospace; }
pre { margin: .5rem 0 0; padding: .5rem .75rem; background: var(--page); border: 1px solid var(--line);
  border-radius: .4rem; overflow-x: auto; user-select: all; }
details { margin-top: .5rem; }
summary { cursor: pointer; color: var(--soft); }
ol { margin: .5rem 0 0; padding: 0 0 0 1.1rem; border-left: 2px solid var(--line); list-style: none; }
ol li::before { content: ""; display: inline-block; width: .6rem; height: .6rem; margin: 0 .7rem 0 -1.45rem;
  border-radius: 50%; background: var(--soft); }
ol li.ahead::before { background: var(--page); border: 2px solid var(--soft); }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
_SORTS: Final = {
    Sort.STUCK: "Stuck",
    Sort.FAILED: "Failed",
    Sort.HELD: "Held",
    Sort.WORKING: "Being worked on",
}


def page(status: Status) -> str:
    """The whole page."""
    return "\n".join(_page(status)) + "\n"


def _page(status: Status) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield f'<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_text(POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="referrer" content="no-referrer"><title>Document lanes</title>'
    yield f"<style>{_STYLE}</style></head>"
    yield "<body><header><h1>Document lanes</h1>"
    yield f'<p class="soft">As of {_moment(status.now_ms)}. {_text(last_tick(status))}</p>'
    yield from (f'<p class="bad">{_text(doubt)}</p>' for doubt in status.doubts)
    yield '<ul class="tiles">'
    for sort, name in _SORTS.items():
        count = status.total(sort)
        yield f'<li class="{sort.value if count else "none"}"><strong>{count}</strong>{name}</li>'
    yield "</ul></header><main>"
    for sort, name in _SORTS.items():
        listed = [one for machine in status.machines for one in machine.of(sort)]
        if listed:
            yield f"<section><h2>{name}</h2>"
            yield from (line for one in listed for line in _document(one, status.now_ms))
            more = status.total(sort) - len(listed)
            yield f'<p class="soft">and {more} more</p></section>' if more else "</section>"
    for machine in status.machines:
        yield from _machine(machine, status.now_ms)
    yield "</main></body></html>"


def last_tick(status: Status) -> str:
    """What is known of the last tick, in a sentence."""
    tick = status.last_tick
    if tick.at_ms is None:
        return f"When the last tick ran is not known: {tick.unknown}." if tick.unknown else "No tick has run yet."
    said = f": {tick.text}" if tick.text else ""
    return f"The last tick ran {age(status.now_ms - tick.at_ms)} ago{said}."


def _machine(machine: MachineStatus, now: int) -> Iterator[str]:
    yield f'<section><h2>{_text(machine.machine)}</h2><div class="scroll"><table>'
    yield '<thead><tr><th scope="col">Status</th><th scope="col" class="number">Documents</th>'
    yield '<th scope="col">Longest there</th></tr></thead><tbody>'
    for name, count in machine.counts.items():
        end = ' <span class="soft">end</span>' if name in machine.terminals else ""
        oldest = machine.oldest.get(name)
        longest = f"{age(now - oldest[1])}: <code>{_text(oldest[0])}</code>" if oldest and not end else ""
        yield f'<tr><th scope="row">{_text(name)}{end}</th><td class="number">{count}</td><td>{longest}</td></tr>'
    yield "</tbody></table></div></section>"


def _document(one: Listed, now: int) -> Iterator[str]:
    since = f", since {age(now - one.since_ms)}" if one.since_ms is not None else ""
    attempts = f", attempt {one.attempts}" if one.attempts else ""
    yield f'<article class="{one.sort.value}"><h3><code>{_text(one.identifier)}</code></h3>'
    yield f'<p class="soft">{_text(one.machine)}: {_text(one.status)}{since}{attempts}</p>'
    yield f"<p>{_text(one.reason)}</p>"
    if one.command:
        yield f"<pre><code>{_text(one.command_line)}</code></pre>"
    if one.timeline:
        yield "<details><summary>Timeline</summary><ol>"
        yield from _timeline(one.timeline, now)
        yield "</ol></details>"
    yield "</article>"


def _timeline(moments: Iterable[tuple[int, str]], now: int) -> Iterator[str]:
    for moment, what in moments:
        ahead = moment > now
        when = f"in {age(moment - now)}" if ahead else f"{age(now - moment)} ago"
        mark = ' class="ahead"' if ahead else ""
        yield f'<li{mark}>{_text(what)} <span class="soft">{when}, {_moment(moment)}</span></li>'


def _moment(ms: int) -> str:
    text = iso(ms)
    return f'<time datetime="{text}">{text[:10]} {text[11:19]} UTC</time>'


def _text(text: str) -> str:
    """Text of any origin as text of the page, and safe inside a quoted attribute as well."""
    return html.escape(visible(text), quote=True)
