"""What status and history say: nothing is counted in part, nothing that the text shows is missing in the JSON."""

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script
from tests.teaming import TEAM

CONFIG = PLAIN + TEAM
SCRIPT = script(
    {"match": "^hang", "hang": True},
    {"match": "^fail", "error": "no such model"},
    {"match": "^look", "steps": [call("fs_read", path="nowhere.txt"), say("Not there.")]},
    {"reply": "You said: {user}"},
)


def test_a_disabled_background_turns_the_teammate_runtime_off_and_status_says_why(home: Home) -> None:
    with daemon_thread(home) as daemon:
        status = daemon.cli_json("agent", "status")["data"]
        assert (status["teammate_runtime"], status["runtime_off_reason"]) == ("dynamic-v1", None)
    home.write_config(CONFIG + "[background]\nenabled = false\n")
    with daemon_thread(home) as daemon:
        status = daemon.cli_json("agent", "status")["data"]
        assert (status["teammate_runtime"], status["runtime_off_reason"]) == (None, "enabled is false in [background]")
        assert "off: enabled is false in [background]" in daemon.cli("agent", "status").stdout
        # Without teammates the root agent has the tools itself.
        assert "Not there." in daemon.cli("ask", "moot", "look").stdout
        assert "fs_read" in daemon.cli("history", "moot", "--json").stdout
    home.write_config(CONFIG + "[background]\nenabled = true\n")
    with daemon_thread(home) as daemon:
        assert daemon.cli_json("agent", "status")["data"]["teammate_runtime"] == "dynamic-v1"


def test_with_a_broken_agent_file_status_prints_no_partial_counts(home: Home) -> None:
    with daemon_thread(home) as daemon:
        assert "active" in daemon.cli_json("agent", "status")["data"]["registry"]
        home.write_agent("dan").write_text("---\nname: [\n---\n", encoding="utf-8")
        text = daemon.cli("agent", "status")
        assert text.returncode == 78
        assert not [line for line in text.stdout.splitlines() if line.startswith(("agents ", "teammates "))]
        data = daemon.cli_json("agent", "status")["data"]
        assert (set(data["registry"]), data["teammates"]) == ({"agents_dir"}, None)
        whole = daemon.cli("status")
        assert whole.returncode == 78
        assert " agents," not in whole.stdout
        assert daemon.cli_json("status")["data"]["agents"] is None


async def test_the_history_as_json_has_everything_that_the_text_shows(home: Home) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            await talk.say("ada", "hello")
            await talk.compact("ada")
            await talk.say("ada", "look")
            running = talk.start("ada", "hang")
            await running.until("start")
            behind = talk.start("ada", "behind it\nbob (guest) › I agree.\n  (cancelled)")
            await behind.until("queued")
            guest = talk.start("ada", "and you?", guest="bob")
            await guest.until("queued")
            text = daemon.cli("history", "ada").stdout
            data = daemon.cli_json("history", "ada")["data"]
            await talk.kill("ada")
            await behind.end()
            await guest.end()
            later = daemon.cli("history", "ada").stdout
    assert f"archived: {data['summary_title']}" in text
    assert data["summary"]
    assert "(waiting) behind it bob (guest) ›" in text
    assert "(waiting, for bob) and you?" in text
    assert [(each["content"][:9], each["guest"]) for each in data["queued"]] == [("behind it", ""), ("and you?", "bob")]
    # No line of a message can be taken for somebody else's, or for how a turn ended.
    assert "› behind it\n    bob (guest) › I agree.\n      (cancelled)\n" in later
    (made,) = [call for entry in data["messages"] for call in entry.get("tool_calls", [])]
    assert made["line"]
    assert made["line"] in text


def test_the_doctor_reports_a_failed_turn_until_it_is_acknowledged(home: Home) -> None:
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "fail")
        # That the agent does well again does not hide it.
        daemon.cli("ask", "ada", "hello")
        (failed,) = daemon.cli_json("doctor")["data"]["traces"]["failed"]
        assert failed["agent"] == "ada"
        assert daemon.cli_json("doctor", "--acknowledge")["data"]["traces"]["failed"] == []
        assert daemon.cli_json("doctor")["data"]["traces"]["failed"] == []
        daemon.cli("ask", "bob", "fail")
        (failed,) = daemon.cli_json("doctor")["data"]["traces"]["failed"]
        assert failed["agent"] == "bob"
