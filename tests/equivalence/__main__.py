"""`make equivalence`: every case beside one process, as a table. Exit code 1 where one is beyond its bars."""

import argparse
import sys
import time

from tests.equivalence.cases import Case, cases
from tests.equivalence.compare import Comparison, Difference

HEAD = "| strategy | ranks | numbers | loss | gradient norm | parameters | bars | |\n|---|--:|---|--:|--:|--:|---|---|"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.equivalence", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    chosen = [case for case in cases() if parser.parse_args().only in case.name]
    comparison, missed = Comparison(), 0
    print(HEAD)
    for number, case in enumerate(chosen, 1):
        began = time.monotonic()
        difference = comparison.of(case)
        missed += not difference.within(case)
        print(_row(case, difference), flush=True)
        seconds = time.monotonic() - began
        print(f"[{number}/{len(chosen)}] {case.name}: {seconds:.1f} s", file=sys.stderr)
        if difference.error:
            print(difference.error, file=sys.stderr)
    print(f"\n{len(chosen) - missed} of {len(chosen)} within their bars")
    return int(missed > 0)


def _row(case: Case, found: Difference) -> str:
    words = "ok" if found.within(case) else found.error.strip().splitlines()[-1] if found.error else "BEYOND"
    figures = " | ".join(f"{value:.1e}" for value in (found.loss, found.norm, found.parameters))
    numbers = "fp64" if case.double else "fp32"
    bars = ", ".join(f"{bar:.0e}" for bar in case.bars)
    return f"| {case.name} | {case.world} | {numbers} | {figures} | {bars} | {words} |"


if __name__ == "__main__":
    sys.exit(main())
