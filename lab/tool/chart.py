# SPDX-License-Identifier: Apache-2.0
"""Curves as text: one line for each contender, one block for each interval."""

BLOCKS = " ▁▂▃▄▅▆▇█"
WIDTH = 60


def chart(curves, highest, change, seconds):
    """`curves`: title and values of each; `highest`: the value of a full block; `change`: when the hot set changes, in seconds."""
    widest = max(len(title) for title, _ in curves)
    lines = [f"{title.ljust(widest)}  {_line(values, highest)}" for title, values in curves]
    columns = min(WIDTH, max(len(values) for _, values in curves))
    at = round(change / seconds * columns)
    lines.append(" " * (widest + 2) + " " * at + f"^ the hot set changes ({change:g} of {seconds:g} s)")
    return "\n".join(lines)


def _line(values, highest):
    return "".join(BLOCKS[max(0, min(8, round(value / highest * 8)))] for value in _columns(values))


def _columns(values):
    """Means of equal parts of the values, at most WIDTH."""
    count = min(WIDTH, len(values))
    parts = [values[i * len(values) // count:(i + 1) * len(values) // count] for i in range(count)]
    return [sum(part) / len(part) for part in parts]
