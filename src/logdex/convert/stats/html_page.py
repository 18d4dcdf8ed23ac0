"""The figures as one HTML page with plots, which needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import escape

from logdex.convert.stats.report import HourFigures, QueueFigures, StatsReport

_SHOWN = 30
"""How many rows a table or a chart of bars shows."""
_COLUMNS_MAX = 500
"""How many columns the chart over time has at most."""
_HOUR_MS = 3_600_000
_STEPS = ((1, "hour"), (3, "3 hours"), (6, "6 hours"), (12, "12 hours"), (24, "day"), (168, "week"))
"""For how many hours a column can stand, with words for it. Wider ones are weeks, too."""
_WIDTH, _HEIGHT, _BAR = 900, 180, 20
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.15em .8em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f3f5f7}"
    "svg{display:block;width:100%;height:auto}rect{fill:#3b75af}text{font:12px system-ui,sans-serif;fill:#333}"
)
_LOWER_BOUNDS = "There are more keys than were counted at once: the counts are lower bounds."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def html_page(report: StatsReport, title: str) -> str:
    """Returns the page."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{report.messages:,} messages, {report.size_bytes:,} bytes</p>",
        *_over_time(report.hours),
        "<h2>Topics</h2>",
        _bars([(each.topic, each.messages) for each in report.topics]),
        _table(
            ("topic", "messages", "bytes", "queues", "skew"),
            [(each.topic, each.messages, each.bytes, each.queues, each.skew) for each in report.topics],
        ),
        "<h2>Queues or partitions</h2>",
        _bars([(f"{each.topic} {each.queue}", each.messages) for each in _largest(report)]),
        "<h2>Keys</h2>",
        "" if report.keys_are_exact else f"<p>{_LOWER_BOUNDS}</p>",
        _table(
            ("key", "topic", "messages", "bytes"),
            [(each.key, each.topic, each.messages, each.bytes) for each in report.keys],
        ),
        "<h2>Lag of consumer groups</h2>",
        _table(
            ("group", "topic", "queue", "offset", "end", "lag"),
            [(each.group, each.topic, each.queue, each.offset, each.end_offset, each.lag) for each in report.groups],
        ),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _largest(report: StatsReport) -> list[QueueFigures]:
    return sorted(report.queues, key=lambda each: -each.messages)


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows[:_SHOWN])
    more = f"<p>and {len(rows) - _SHOWN:,} more</p>" if len(rows) > _SHOWN else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _cell(value: object) -> str:
    return f"<td>{value:,}</td>" if isinstance(value, int | float) else f"<td>{escape(str(value))}</td>"


def _bars(rows: Sequence[tuple[str, int]]) -> str:
    """Returns horizontal bars."""
    shown = rows[:_SHOWN]
    if not shown:
        return "<p>none</p>"
    most = max(max(count for _, count in shown), 1)
    parts = []
    for number, (name, count) in enumerate(shown):
        y, width = number * _BAR, round(count / most * (_WIDTH - 400), 1)
        parts.append(
            f'<text x="295" y="{y + 14}" text-anchor="end">{escape(name[-42:])}</text>'
            f'<rect x="300" y="{y + 3}" width="{max(width, 1)}" height="{_BAR - 6}"/>'
            f'<text x="{306 + width}" y="{y + 14}">{count:,}</text>'
        )
    return f'<svg viewBox="0 0 {_WIDTH} {len(shown) * _BAR}" role="img">{"".join(parts)}</svg>'


def _step_of(begin_ms: int, end_ms: int) -> tuple[int, str]:
    """Returns the milliseconds of each column of a chart over some time, and words for them."""
    hours = (end_ms - begin_ms) // _HOUR_MS + 1
    for step, words in _STEPS:
        if hours <= step * _COLUMNS_MAX:
            return step * _HOUR_MS, words
    weeks = -(-hours // (168 * _COLUMNS_MAX))
    return weeks * 168 * _HOUR_MS, f"{weeks:,} weeks"


def _over_time(hours: Sequence[HourFigures]) -> tuple[str, str]:
    """Returns a heading and columns over time, each for an hour or, if there are many, for a longer
    time, which the heading and the columns' own titles state."""
    known = [each for each in hours if each.hour_ms >= 0]
    if not known:
        return "<h2>Messages per hour</h2>", "<p>none</p>"
    step, words = _step_of(known[0].hour_ms, known[-1].hour_ms)
    begin = known[0].hour_ms // step * step
    end = known[-1].hour_ms // step * step + step
    counts: dict[int, int] = {}
    for each in known:
        place = (each.hour_ms - begin) // step
        counts[place] = counts.get(place, 0) + each.messages
    most, total = max(counts.values()), (end - begin) // step
    width = _WIDTH / total
    columns = "".join(
        f'<rect x="{place * width:.2f}" y="{_HEIGHT - count / most * _HEIGHT:.2f}" width="{max(width - 0.5, 0.5):.2f}" '
        f'height="{count / most * _HEIGHT:.2f}"><title>{_range(begin + place * step, step)}: {count:,}</title></rect>'
        for place, count in sorted(counts.items())
    )
    axis = (
        f'<text x="0" y="{_HEIGHT + 16}">{_time(begin)}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 16}" text-anchor="end">{_time(end)}</text>'
    )
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 20}" role="img">{columns}{axis}</svg>'
    return f"<h2>Messages per {words}</h2>", svg


def _range(begin_ms: int, step_ms: int) -> str:
    return f"{_time(begin_ms)} to {_time(begin_ms + step_ms)}"


def _time(time_ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%d %H:%M")
    except OverflowError:
        return str(time_ms)
