"""`python -m benchmarks.trainer.compression`: what sparse gradients cost in loss and spare in bytes.

A small GPT on real text is trained by two ranks with dense gradients, with topk at 10 and 1 %, and with powersgd, from
the same seed over the same samples. Prints a table, and draws the curves where `--svg` says. What it costs depends on
the model: these are 33,000 parameters, whose gradients have little to spare.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dtj_api.layout import Ranks

from benchmarks.trainer.gang import BASE, Fields, Trace, run

WARM_UP = 20
SHOWN = (1, 50, 100, 150, 200, 300)
COLOURS = ("#1f77b4", "#2ca02c", "#d62728", "#9467bd")


def ways() -> dict[str, Fields]:
    topk = {"compression": "topk", "compressionWarmupSteps": WARM_UP}
    return {
        "dense": {},
        "topk, 10 %": {**topk, "compressionRatio": 0.1},
        "topk, 1 %": {**topk, "compressionRatio": 0.01},
        "powersgd, rank 2": {"compression": "powersgd", "compressionWarmupSteps": WARM_UP},
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trainer.compression", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    traces: dict[str, Trace] = {}
    for name, fields in ways().items():
        print(f"{name} …", file=sys.stderr, flush=True)
        made = {"steps": arguments.steps, "ddp": fields}
        traces[name] = run(made, Ranks(2, 2), double=False, base={**BASE, "optimizer": {"learningRate": 0.003}})
        if traces[name].error:
            print(traces[name].error, file=sys.stderr)
            return 1
    print(table(traces))
    if arguments.svg:
        arguments.svg.write_text(picture({name: smooth(trace.losses) for name, trace in traces.items()}))
    return 0


def table(traces: dict[str, Trace]) -> str:
    """Losses of training after some steps, of validation at the end, and bytes beside those of dense gradients."""
    steps = [step for step in SHOWN if step <= len(next(iter(traces.values())).losses)]
    head = ["gradients", *(f"step {step}" for step in steps), "validation", "bytes, dense / sent"]
    rows = [head, ["---", *["--:"] * (len(head) - 1)]]
    for name, trace in traces.items():
        losses = smooth(trace.losses)
        ratio = f"{trace.dense_bytes / trace.sent_bytes:.1f}" if trace.sent_bytes else "1.0"
        rows.append([name, *(f"{losses[step - 1]:.3f}" for step in steps), f"{trace.validation:.3f}", ratio])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def smooth(losses: list[float], window: int = 10) -> list[float]:
    """Mean over the last so many steps: batches differ."""
    parts = [losses[max(0, end - window) : end] for end in range(1, len(losses) + 1)]
    return [sum(part) / len(part) for part in parts]


def picture(curves: dict[str, list[float]], width: int = 640, height: int = 320) -> str:
    """Losses over steps, as SVG."""
    values = [value for curve in curves.values() for value in curve]
    low, high, steps = min(values), max(values), max(map(len, curves.values()))

    def place(step: int, loss: float) -> str:
        return f"{50 + step * (width - 70) / steps:.1f},{20 + (high - loss) * (height - 60) / (high - low):.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="24">{high:.2f}</text><text x="8" y="{height - 38}">{low:.2f}</text>',
        f'<text x="{width // 2 - 20}" y="{height - 8}">step, up to {steps}</text>',
    ]
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=True):
        points = " ".join(place(step, loss) for step, loss in enumerate(curve))
        number = list(curves).index(name)
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        lines.append(f'<text x="{width - 150}" y="{34 + 16 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
