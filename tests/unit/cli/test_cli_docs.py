"""docs/cli.md says what the commands say."""

from scripts.clidoc import TARGET, document


def test_the_reference_of_the_command_line_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run: python scripts/clidoc.py"
