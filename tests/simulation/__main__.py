"""`./dev simulate`: plays seeds, prints the trace of one that fails, and shows that deliberate defects are found."""

import argparse
import gc
import logging
import sys
import time
import warnings
from contextlib import nullcontext

from tests.simulation.event_loop import Deadlock
from tests.simulation.mutants import MUTANTS, mutated
from tests.simulation.scenario import Scenario, Violation

SEEDS = 2_000


def find_violation(seed: int) -> tuple[Scenario, str]:
    """Play one seed; what went wrong, or nothing. Whatever stops it in the middle counts as well."""
    scenario = Scenario(seed)
    try:
        scenario.run()
    except (Violation, Deadlock) as error:
        return scenario, str(error)
    except Exception as error:  # noqa: BLE001 - a failure inside is a finding like any other
        return scenario, f"{type(error).__name__}: {error}"
    return scenario, ""


def silence() -> None:
    """A daemon that crashes leaves tasks that nobody waits for, and logs what nobody reads."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore", RuntimeWarning)
    sys.unraisablehook = lambda _unraisable: None
    # What is garbage is looked for between seeds: that is quicker.
    gc.disable()


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many seeds to play ({SEEDS})")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="play this one alone and print its trace")
    parser.add_argument("--mutants", action="store_true", help="show that each deliberate defect is found")
    parser.add_argument("--mutant", choices=MUTANTS, help="play with this defect")
    chosen = parser.parse_args()
    silence()
    if chosen.mutants:
        return play_mutants(range(chosen.first, chosen.first + chosen.seeds))
    with mutated(chosen.mutant) if chosen.mutant else nullcontext():
        if chosen.seed is not None:
            return play_one(chosen.seed)
        return play_many(range(chosen.first, chosen.first + chosen.seeds))


def play_one(seed: int) -> int:
    scenario, problem = find_violation(seed)
    print("\n".join(scenario.world.trace))
    print(f"seed {seed}: {problem or 'clean'}")
    return bool(problem)


def play_many(seeds: range) -> int:
    began, failed = time.monotonic(), 0
    for seed in seeds:
        _, problem = find_violation(seed)
        gc.collect(0)
        if problem:
            failed += 1
            print(f"seed {seed}: {problem}\n  ./dev simulate --seed {seed}")
    print(f"{len(seeds)} seeds, {failed} failed, {time.monotonic() - began:.0f} s")
    return bool(failed)


def play_mutants(seeds: range) -> int:
    missed = 0
    for name in MUTANTS:
        found, problem = find_first(name, seeds)
        missed += found is None
        print(f"{name}: {f'found by seed {found}: {problem[:150]}' if found is not None else 'NOT FOUND'}")
    return bool(missed)


def find_first(name: str, seeds: range) -> tuple[int | None, str]:
    """The first seed that finds a defect."""
    with mutated(name):
        for seed in seeds:
            _, problem = find_violation(seed)
            gc.collect(0)
            if problem:
                return seed, problem
    return None, ""


if __name__ == "__main__":
    sys.exit(main())
