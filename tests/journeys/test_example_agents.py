"""Example agents: a fallback that is hidden by the first agent of one's own, explained, and kept with one command."""

import json

import pytest

from moot.domain.errors import NotFound
from tests.daemon_process import PROVIDER_CONFIG, Home, run_cli
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider

CONFIG = PROVIDER_CONFIG


async def test_hidden_examples_are_explained_and_kept_with_one_command(home: Home, provider: Provider) -> None:
    for name in ("ada", "bob", "cyd"):
        (home.path / "agents" / name / "AGENT.md").unlink()
    with daemon_thread(home) as daemon:
        assert "Hidden examples" not in daemon.cli("agents", "list").stderr
        made = daemon.cli("agents", "new", "zoe")
        assert "code-reviewer, data-analyst, translator are hidden" in made.stderr
        assert "moot agents keep" in made.stderr
        listed = daemon.cli("agents", "list")
        assert "Hidden examples: code-reviewer, data-analyst, translator. Keep them: moot agents keep" in listed.stderr
        async with daemon.client() as talk:
            for asked in (talk.say("translator", "hello"), talk.start("zoe", "hello", guest="translator").end()):
                with pytest.raises(NotFound, match="translator is an example, and examples are hidden") as hidden:
                    await asked
                assert "moot agents keep translator" in hidden.value.fix
            assert "is an example" in daemon.cli("agents", "show", "translator").stderr
            assert "no example 'zoe'" in daemon.cli("agents", "keep", "zoe").stderr
            assert daemon.cli_json("agents", "keep", "translator")["data"]["kept"].keys() == {"translator"}
            assert (await talk.say("translator", "hello")).outcome == "completed"
            assert daemon.cli("agents", "keep", "translator").returncode != 0
            assert "Kept code-reviewer, data-analyst" in daemon.cli("agents", "keep").stdout
            assert "You have all of them." in daemon.cli("agents", "keep").stdout
            assert "Hidden examples" not in daemon.cli("agents", "list").stderr
        sources = {each["name"]: each["source"] for each in daemon.cli_json("agents", "list")["data"]}
    assert sources["translator"] == sources["code-reviewer"] == "user"


async def test_descriptions_name_only_what_there_are_tools_for(home: Home, provider: Provider) -> None:
    home.write_config((home.path / "config.toml").read_text() + "\n[agent]\nmultiAgent = true\n")
    with daemon_thread(home) as daemon:
        told = {each["name"]: each for each in daemon.cli_json("agents", "list")["data"]}
        assert told["vault"]["cannot_yet"] == ["makes payments"]
        assert "payments" not in told["vault"]["description"]
        assert "Stores and uses secrets" in told["vault"]["description"]
        assert told["vault"]["capabilities"] == ["secret-storage", "encryption", "decryption", "signing", "hashing"]
        assert told["vault"]["accepts"] == "The name of a secret, never its value; what to encrypt, sign or hash."
        assert "makes payments" in daemon.cli("agents", "show", "vault").stdout
        async with daemon.client() as talk:
            await talk.say("moot", "hello")
        system = str(provider.bodies()[-1]["messages"])
        assert told["vault"]["description"] in system
        assert "makes payments" not in system
        assert f"give it: {told['vault']['accepts']}" in system
        assert "hash or pay" not in system
        assert told["librarian"]["description"] in system
        assert "searches knowledge" not in system
        # A tool that is added brings its part of the description back.
        (home.path / "tools").mkdir()
        (home.path / "tools" / "pay.py").write_text(
            'from moot.tools import tool\n\n\n@tool\ndef payment_send(to: str) -> str:\n    """Pay."""\n    return to\n'
        )
        daemon.cli("reload")
        vault = {each["name"]: each for each in daemon.cli_json("agents", "list")["data"]}["vault"]
        assert "makes payments" in vault["description"]
        assert "payments" in vault["capabilities"]
        assert "hash or pay" in vault["accepts"]


def test_hints_are_written_as_the_program_was_started(home: Home) -> None:
    shown = run_cli(home, "agents", "new", "two words", MOOT_DEV="./dev moot").stderr
    assert "Use `./dev moot agents new NAME`, for example `./dev moot agents new code-critic`." in shown
    fix = json.loads(run_cli(home, "agents", "new", "two words", "--json", MOOT_DEV="./dev moot").stdout)["error"][
        "fix"
    ]
    assert "./dev moot agents new NAME" in fix
