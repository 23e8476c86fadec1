"""`python -m tests.chaos --cycles N`: kill a real daemon as often as you like, and say what was lost."""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from moot.failpoint import POINTS
from tests.chaos.cycles import Arena, Cycle, plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--points", nargs="*", default=list(POINTS), choices=POINTS, metavar="POINT")
    parser.add_argument("--only-points", action="store_true", help="no kills at random moments")
    asked = parser.parse_args()
    points = tuple(asked.points)
    planned = plan(asked.cycles, asked.seed, points)
    if asked.only_points:
        planned = [(points[number % len(points)], 1 + number // len(points) % 4) for number in range(asked.cycles)]
    print(f"seed {asked.seed}: {asked.cycles} cycles, {len(points)} named points", flush=True)
    # Told to stop, it takes its daemon with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="moot-chaos-"))
    failed: list[Cycle] = []
    reached: Counter[str] = Counter()
    began = time.monotonic()
    with Arena(folder, asked.seed) as arena:
        for number, (point, passes) in enumerate(planned, start=1):
            done = arena.cycle(number, point, passes)
            reached[point or "at random"] += done.reached or not point
            if done.problems:
                failed.append(done)
                print(f"{done}:", *done.problems, sep="\n  ", flush=True)
            if number % 50 == 0:
                print(f"{number} cycles, {arena.acknowledged} acknowledged, {len(failed)} with problems", flush=True)
    took = time.monotonic() - began
    print(
        f"{asked.cycles} kills in {took:.0f} s, {sum(reached.values()) - reached['at random']} at named points and"
        f" {reached['at random']} at random; {arena.acknowledged} messages acknowledged;"
        f" {len(failed)} cycles with problems"
    )
    missed = [point for point in points if not reached[point]]
    if missed:
        print("never reached:", *missed)
    if failed:
        print(f"the homes are kept in {folder}; run again with --seed {asked.seed}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
