"""A configuration file that cannot be used, with all its errors; and why a file is not in use."""

from msgspec import Struct

from moot.domain.agent import FileProblem
from moot.domain.errors import ConfigError


class ConfigProblem(Struct, frozen=True):
    """Why a configuration file is not in use: its first error, or that it has changed. "" if it is in use."""

    reason: str = ""
    # How many more errors it has.
    more: int = 0


class BrokenConfig(ConfigError):
    """A configuration that cannot be used, with its errors and warnings."""

    def __init__(self, errors: list[FileProblem], warnings: list[FileProblem]) -> None:
        super().__init__(
            "\n".join(str(flaw) for flaw in errors),
            fix="Correct the file; `moot doctor` checks it again.",
        )
        self.errors, self.warnings = tuple(errors), tuple(warnings)

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return (*self.errors, *self.warnings)

    @property
    def problem(self) -> ConfigProblem:
        return ConfigProblem(str(self.errors[0]), len(self.errors) - 1)
