"""The same figures as bars, in a plain SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from benchmarks.operator.contenders import CONTENDERS
from benchmarks.operator.report import heading
from benchmarks.operator.results import Summary

WIDTH, LEFT, ROW, TITLE = 760, 230, 22, 34
_SPAN = WIDTH - LEFT - 90
_COLOURS = {"dtj": "#2563eb", "floor": "#9ca3af"}
_PEER = "#d97706"


def draw(parts: Sequence[tuple[str, Sequence[Summary]]]) -> str:
    """One panel a part: seconds until all pods run, or (restarts) until all are created again."""
    pieces: list[str] = []
    top = 0
    for part, summaries in parts:
        pieces += _panel(part, summaries, top)
        top += TITLE + ROW * len(summaries) + 12
    style = "text{font:13px sans-serif;fill:#111827}.title{font-weight:bold}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#ffffff"/>{"".join(pieces)}</svg>\n'
    )


def _panel(part: str, summaries: Sequence[Summary], top: int) -> list[str]:
    moment = "created" if part.startswith("C") else "running"
    what = "all created again" if part.startswith("C") else "all Running"
    longest = max((s.seconds[moment] or 0 for s in summaries), default=0) or 1
    pieces = [f'<text class="title" x="10" y="{top + 22}">{escape(heading(part, summaries[0]))}, {what}</text>']
    for number, summary in enumerate(summaries):
        y = top + TITLE + ROW * number
        seconds = summary.seconds[moment]
        width = max(1, round(_SPAN * (seconds or 0) / longest))
        title = escape(CONTENDERS[summary.contender].title)
        colour = _COLOURS.get(summary.contender.split("-")[0], _PEER)
        label = "not finished" if seconds is None else f"{seconds:.2f} s"
        pieces += [
            f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{title}</text>',
            f'<rect x="{LEFT}" y="{y + 2}" width="{width}" height="{ROW - 6}" fill="{colour}"/>',
            f'<text x="{LEFT + width + 6}" y="{y + 14}">{label}</text>',
        ]
    return pieces
