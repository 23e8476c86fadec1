"""`python -m tests.chaos --cycles N`: kill a real daemon as often as you like, and say what was lost."""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from moot.failpoint import CRON_POINTS, PEER_POINTS, POINTS, TEAM_POINTS, WORKFLOW_POINTS
from tests.chaos import automation_cycles, peer_cycles, team_cycles
from tests.chaos.cycles import Arena, Cycle, plan

_CHOICES = (*POINTS, *PEER_POINTS, *CRON_POINTS, *WORKFLOW_POINTS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--points", nargs="*", default=[], choices=_CHOICES, metavar="POINT")
    parser.add_argument("--only-points", action="store_true", help="no kills at random moments")
    parser.add_argument("--team", action="store_true", help="with an orchestrator and its teammates")
    parser.add_argument("--peers", action="store_true", help="two daemons that exchange mail over NATS")
    parser.add_argument("--automation", action="store_true", help="with schedules, background tasks and workflows")
    asked = parser.parse_args()
    # Told to stop, it takes its daemon with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if asked.peers:
        return _peers(asked)
    if asked.automation:
        return _automation(asked)
    asked.points = asked.points or list(POINTS)
    return _team(asked) if asked.team else _talkers(asked)


def _peers(asked: argparse.Namespace) -> int:
    points = tuple(point for point in PEER_POINTS if point in (asked.points or PEER_POINTS))
    planned = peer_cycles.plan(asked.cycles, asked.seed, points)
    if asked.only_points:
        planned = [each for each in peer_cycles.plan(2 * asked.cycles, asked.seed, points) if each[1]][: asked.cycles]
    print(f"seed {asked.seed}: {asked.cycles} cycles with two daemons and NATS, {len(points)} named points", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="moot-chaos-"))
    reached: Counter[str] = Counter()
    failed = 0
    began = time.monotonic()
    with peer_cycles.PeerArena(folder, asked.seed) as arena:
        for number, (target, point, passes) in enumerate(planned, start=1):
            done = arena.cycle(number, target, point, passes)
            reached[point or f"{target} at random"] += done.reached
            failed += bool(done.problems)
            if done.problems:
                print(f"{done}:", *done.problems, sep="\n  ", flush=True)
            if number % 20 == 0:
                print(f"{number} cycles in {time.monotonic() - began:.0f} s, {failed} with problems", flush=True)
    print(
        f"{asked.cycles} cycles in {time.monotonic() - began:.0f} s, {sum(reached.values())} kills:"
        f" {sum(reached[point] for point in points)} at named points; the data of NATS was lost {arena.losses} times;"
        f" {arena.accepted} messages accepted; {failed} cycles with problems"
    )
    if missed := [point for point in points if not reached[point]]:
        print("never reached:", *missed)
    if failed:
        print(f"the homes are kept in {folder}; run again with --seed {asked.seed}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def _automation(asked: argparse.Namespace) -> int:
    points = tuple(point for point in automation_cycles.VISITED if point in (asked.points or automation_cycles.VISITED))
    planned = automation_cycles.plan(asked.cycles, asked.seed, points)
    if asked.only_points:
        planned = [(points[number % len(points)], 1 + number // len(points) % 4) for number in range(asked.cycles)]
    print(f"seed {asked.seed}: {asked.cycles} cycles with automation, {len(points)} named points", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="moot-chaos-"))
    reached: Counter[str] = Counter()
    failed = 0
    began = time.monotonic()
    with automation_cycles.AutomationArena(folder, asked.seed) as arena:
        for number, (point, passes) in enumerate(planned, start=1):
            done = arena.cycle(number, point, passes)
            reached[point] += done.reached
            failed += bool(done.problems)
            if done.problems:
                print(f"{done}:", *done.problems, sep="\n  ", flush=True)
            if number % 20 == 0:
                print(f"{number} cycles in {time.monotonic() - began:.0f} s, {failed} with problems", flush=True)
    made = ", ".join(f"{count} {what}" for what, count in arena.totals.items())
    print(
        f"{arena.kills} kills and stops in {time.monotonic() - began:.0f} s,"
        f" {sum(reached[point] for point in points)} at named points; {made}; {failed} cycles with problems"
    )
    if missed := [point for point in points if not reached[point]]:
        print("never reached:", *missed)
    if failed:
        print(f"the homes are kept in {folder}; run again with --seed {asked.seed}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def _team(asked: argparse.Namespace) -> int:
    points = tuple(point for point in asked.points if point in team_cycles.VISITED)
    planned = team_cycles.plan(asked.cycles, asked.seed, points)
    if asked.only_points:
        planned = [(points[number % len(points)], 1 + number // len(points) % 4) for number in range(asked.cycles)]
    print(f"seed {asked.seed}: {asked.cycles} cycles with a team, {len(points)} named points", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="moot-chaos-"))
    reached: Counter[str] = Counter()
    failed = 0
    began = time.monotonic()
    with team_cycles.TeamArena(folder, asked.seed) as arena:
        for number, (point, passes) in enumerate(planned, start=1):
            done = arena.cycle(number, point, passes)
            reached[point or "at random"] += done.reached or point in ("", team_cycles.TERM)
            failed += bool(done.problems)
            if done.problems:
                print(f"{done}:", *done.problems, sep="\n  ", flush=True)
            if number % 50 == 0:
                print(f"{number} cycles in {time.monotonic() - began:.0f} s, {failed} with problems", flush=True)
        arena.finish()
    stops, random = reached[team_cycles.TERM], reached["at random"]
    named = sum(reached.values()) - stops - random
    print(
        f"{arena.kills} kills and stops in {time.monotonic() - began:.0f} s: {named} at named points,"
        f" {random} at random, {stops} by SIGTERM; {arena.runs} runs, {arena.outcomes};"
        f" {failed} cycles with problems"
    )
    print("never reached:", *[point for point in points if not reached[point]])
    if failed:
        print(f"the homes are kept in {folder}; run again with --seed {asked.seed}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def _talkers(asked: argparse.Namespace) -> int:
    points = tuple(point for point in asked.points if point not in TEAM_POINTS)
    planned = plan(asked.cycles, asked.seed, points)
    if asked.only_points:
        planned = [(points[number % len(points)], 1 + number // len(points) % 4) for number in range(asked.cycles)]
    print(f"seed {asked.seed}: {asked.cycles} cycles, {len(points)} named points", flush=True)
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
