"""`./dev simulate`: plays seeds, prints the trace of one that fails, and shows that deliberate defects are found."""

import argparse
import gc
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext

from tests.simulation.automation_scenario import AUTOMATION_MUTANTS, AutomationScenario
from tests.simulation.event_loop import Deadlock
from tests.simulation.mail_mutants import MAIL_MUTANTS
from tests.simulation.mail_scenario import MailScenario
from tests.simulation.mutants import MUTANTS, Patch, mutated
from tests.simulation.scenario import Scenario, Violation
from tests.simulation.steering_scenario import STEERING_MUTANTS, SteeringScenario

SEEDS = 2_000
AnyScenario = Scenario | MailScenario


def find_violation(seed: int, kind: type[AnyScenario] = Scenario) -> tuple[AnyScenario, str]:
    """Play one seed; what went wrong, or nothing. Whatever stops it in the middle counts as well."""
    scenario = kind(seed)
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
    parser.add_argument(
        "--mutant",
        choices=[*MUTANTS, *MAIL_MUTANTS, *AUTOMATION_MUTANTS, *STEERING_MUTANTS],
        help="play with this defect",
    )
    parser.add_argument("--mail", action="store_true", help="play several daemons that exchange mail")
    parser.add_argument("--automation", action="store_true", help="play with schedules and workflows")
    parser.add_argument("--steering", action="store_true", help="play with messages for active runs")
    chosen = parser.parse_args()
    silence()
    kind, mutants = _choose_kind(chosen)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    if chosen.mutants:
        return play_mutants(seeds, kind, mutants)
    with mutated(mutants[chosen.mutant]) if chosen.mutant else nullcontext():
        return play_one(chosen.seed, kind) if chosen.seed is not None else play_many(seeds, kind)


def _choose_kind(chosen: argparse.Namespace) -> tuple[type[AnyScenario], Mapping[str, Callable[[], list[Patch]]]]:
    if chosen.mail or chosen.mutant in MAIL_MUTANTS:
        return MailScenario, MAIL_MUTANTS
    if chosen.automation or chosen.mutant in AUTOMATION_MUTANTS:
        return AutomationScenario, AUTOMATION_MUTANTS
    if chosen.steering or chosen.mutant in STEERING_MUTANTS:
        return SteeringScenario, STEERING_MUTANTS
    return Scenario, MUTANTS


def play_one(seed: int, kind: type[AnyScenario]) -> int:
    scenario, problem = find_violation(seed, kind)
    print("\n".join(scenario.trace))
    print(f"seed {seed}: {problem or 'clean'}")
    return bool(problem)


def play_many(seeds: range, kind: type[AnyScenario]) -> int:
    began, failed = time.monotonic(), 0
    options: dict[type[AnyScenario], str] = {MailScenario: " --mail", AutomationScenario: " --automation"}
    option = (options | {SteeringScenario: " --steering"}).get(kind, "")
    for seed in seeds:
        _, problem = find_violation(seed, kind)
        gc.collect(0)
        if problem:
            failed += 1
            print(f"seed {seed}: {problem}\n  ./dev simulate{option} --seed {seed}")
    print(f"{len(seeds)} seeds, {failed} failed, {time.monotonic() - began:.0f} s")
    return bool(failed)


def play_mutants(seeds: range, kind: type[AnyScenario], mutants: Mapping[str, Callable[[], list[Patch]]]) -> int:
    missed = 0
    for name, make in mutants.items():
        found, problem = find_first(make, seeds, kind)
        missed += found is None
        print(f"{name}: {f'found by seed {found}: {problem[:150]}' if found is not None else 'NOT FOUND'}")
    return bool(missed)


def find_first(
    make: Callable[[], list[Patch]], seeds: Iterable[int], kind: type[AnyScenario] = Scenario
) -> tuple[int | None, str]:
    """The first seed that finds a defect."""
    with mutated(make):
        for seed in seeds:
            _, problem = find_violation(seed, kind)
            gc.collect(0)
            if problem:
                return seed, problem
    return None, ""


if __name__ == "__main__":
    sys.exit(main())
