"""Rules for all calls like one, offered with an approval, and denials with a reason; through a running daemon."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from moot.client import Approval, Denial, Moot, RunFailed
from moot.domain.errors import BadRequest, Conflict, Forbidden
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.raw_client import tcp_address
from tests.scripting import call, say, script
from tests.talking import Speech, Talking
from tests.terminal import terminal
from tests.web_server import serving

CONFIG = PLAIN.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
SCRIPT = script(
    {"match": "^run (?P<command>.*)", "steps": [call("exec", command="{command}"), say("{result}")]},
    {
        "match": "^write (?P<path>.*)",
        "steps": [call("fs_write", path="{path}", content="x\n"), say("{result}")],
    },
    {
        "match": "^fetch (?P<first>[^ ]*) (?P<second>[^ ]*)",
        "steps": [call("web_fetch", url="{first}"), call("web_fetch", url="{second}"), say("{result}")],
    },
)


async def decide(talk: Talking, ask: Any, decision: str, **more: Any) -> pb.AskDecided:
    message = pb.DecideAskMsg(ask_id=ask.ask_id, attempt=ask.attempt, decision=decision, **more)
    return (await talk.ask(decide_ask=message)).ask_decided


async def find_ask(talk: Talking, speech: Speech) -> pb.ApprovalEvent | None:
    """The approval that a turn waits for; None if it ended without one."""
    try:
        ask: pb.ApprovalEvent = await speech.until("approval_opened")
    except AssertionError:
        await speech.end()
        return None
    return ask


async def is_asked(talk: Talking, text: str, sender: str, cwd: Path) -> bool:
    speech = talk.start("ada", text, sender, cwd=str(cwd))
    ask = await find_ask(talk, speech)
    if ask is not None:
        await decide(talk, ask, "deny")
        await speech.end()
    return ask is not None


async def test_a_command_with_typed_arguments_is_allowed_in_one_conversation(
    home: Home, tmp_path: Path, sender: str
) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/one.txt", "a/two.txt"):
        (tmp_path / name).write_text(name)
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "run cat a/one.txt", sender, cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            (offered,) = ask.patterns
            assert offered.rule == (
                f"allow exec: cat ‹any path below {tmp_path}› in {tmp_path}, in a sandbox without a network"
                f" for ada as {sender}"
            )
            shown = daemon.cli("inbox", "show", ask.ask_id).stdout
            assert "--always --pattern 1 would write: allow exec: cat ‹any path below" in shown
            # A rule needs a decision that writes one, and a pattern that covers the call.
            for decision, pattern, error in (
                ("once", offered.text, "for a rule"),
                ("always", "cat {number}", "does not cover"),
                ("always", "{one:cat|rm} {path:/}", "is fixed"),
            ):
                with pytest.raises(BadRequest, match=error):
                    await decide(talk, ask, decision, pattern=pattern)
            # A hint names only what there is, and repeats what was typed.
            with pytest.raises(BadRequest) as wrong:
                await decide(talk, ask, "always", pattern="cat {number}")
            assert wrong.value.fix == f"One that does: {offered.text}"
            named = daemon.cli("inbox", "approve", ask.ask_id, "--always", "--pattern", "3")
            assert "no pattern with the number 3 is offered" in named.stderr
            typed = ("--conversation", "--pattern", offered.text, "--yes")
            unnamed = daemon.cli_json("inbox", "approve", ask.ask_id, *typed)["error"]["fix"]
            words = shlex.split(unnamed)
            assert words[-8:] == ["approve", shorten_ask_id(ask.ask_id), "--attempt", str(ask.attempt), *typed]
            approve = ("inbox", "approve", ask.ask_id, "--attempt", str(ask.attempt))
            unsure = daemon.cli(*approve, "--conversation", "--pattern", "1")
            assert "This writes the rule: allow exec: cat" in unsure.stderr
            assert "nothing was decided" in unsure.stderr
            done = daemon.cli_json(*approve, "--conversation", "--pattern", "1", "--yes")
            assert "in this conversation, not in background runs" in done["data"]["rule"]
            await speech.end()
    # The rule is stored.
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            assert not await is_asked(talk, "run cat a/two.txt", sender, tmp_path)
            for other in (
                "cat a/one.txt a/two.txt",
                "cat -n a/one.txt",
                "cat a/one.txt; id",
                "cat /etc/passwd",
                "ls a/",
            ):
                assert await is_asked(talk, f"run {other}", sender, tmp_path), other
            assert await is_asked(talk, "run cat a/two.txt", f"{sender}:other", tmp_path)
            assert await is_asked(talk, "run cat one.txt", sender, tmp_path / "a")
            start = pb.StartRunMsg(agent="ada", content="run cat a/two.txt", sender=sender, cwd=str(tmp_path))
            run_id = (await talk.ask(start_run=start)).run.run_id
            waiting = pb.WaitRunsMsg(run_ids=[run_id], until_asked=True, seconds=30)
            (run,) = (await talk.ask(wait_runs=waiting)).run_list.runs
            assert run.needs_person
            (rule,) = daemon.cli_json("rules")["data"]
            assert (rule["scope"], rule["tool"]) == ("conversation", "exec")
            assert daemon.cli("rules", "rm", str(rule["number"])).returncode == 0
            assert await is_asked(talk, "run cat a/two.txt", sender, tmp_path)


async def test_a_rule_of_the_conversation_ends_when_a_new_one_begins(
    daemon: LiveDaemon, tmp_path: Path, sender: str
) -> None:
    for name in ("one.txt", "two.txt", "three.txt"):
        (tmp_path / name).write_text(name)
    other = f"{sender}:other"
    async with daemon.client() as talk:
        for text, who, decision in (
            ("run cat one.txt", sender, "conversation"),
            ("run cat one.txt", other, "conversation"),
            ("write one.txt", sender, "always"),
        ):
            speech = talk.start("ada", text, who, cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            await decide(talk, ask, decision, pattern=ask.patterns[0].text)
            await speech.end()
        assert not await is_asked(talk, "run cat two.txt", sender, tmp_path)
        await talk.ask(open_stretch=pb.OpenStretchMsg(agent="ada", sender=sender))
        assert await is_asked(talk, "run cat two.txt", sender, tmp_path)
        # Continuing the earlier conversation does not bring it back.
        await talk.ask(open_stretch=pb.OpenStretchMsg(agent="ada", sender=sender, resume=1))
        assert await is_asked(talk, "run cat two.txt", sender, tmp_path)
        listed = (await talk.ask(list_rules=pb.ListRulesMsg())).rule_list.rules
        assert [rule.tool for rule in listed if rule.sender == sender] == ["fs_write"]
        # The permanent rule, and that of another conversation, stay.
        assert not await is_asked(talk, "write two.txt", sender, tmp_path)
        assert not await is_asked(talk, "run cat two.txt", other, tmp_path)


async def test_the_script_of_an_editor_is_not_taken_for_a_path(home: Home, tmp_path: Path, sender: str) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("old\n")
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = talk.start("ada", "run sed -i s/old/new/ one.txt", sender, cwd=str(tmp_path))
            ask = await speech.until("approval_opened")
            (offered,) = ask.patterns
            assert offered.rule.startswith(f"allow exec: sed -i s/old/new/ ‹any path below {tmp_path}› in ")
            await decide(talk, ask, "conversation", pattern=offered.text)
            await speech.end()
            assert not await is_asked(talk, "run sed -i s/old/new/ two.txt", sender, tmp_path)
            assert await is_asked(talk, "run sed -i s/new/other/ two.txt", sender, tmp_path)


def test_the_chat_confirms_the_pattern_that_was_saved(daemon: LiveDaemon, tmp_path: Path, sender: str) -> None:
    (tmp_path / "one.txt").write_text("one")
    with terminal(daemon.home, "chat", "ada", "--as", sender, "--cwd", str(tmp_path), columns=200) as person:
        person.enter("run cat one.txt")
        person.wait_on_screen("p all calls like it in this conversation")
        person.enter("p")
        person.wait_for("✓ allowed in this conversation: exec: cat ‹any path below")
        person.type("\x04")
        assert person.wait_for_exit() == 0


async def test_a_call_for_which_no_pattern_is_offered_is_not_said_to_have_one(
    home: Home, tmp_path: Path, sender: str
) -> None:
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            for command, number_fix, written_fix in (
                ("cat notes", "Write one of your own", "Begin with cat notes, and write"),
                ("bash -c 'cat notes'", "Write one of your own", "Decide without a pattern."),
            ):
                speech = talk.start("ada", f"run {command}", sender, cwd=str(tmp_path))
                ask = await speech.until("approval_opened")
                assert list(ask.patterns) == []
                for pattern, fix in (("1", number_fix), ("cat {number}", written_fix)):
                    refused = daemon.cli_json("inbox", "approve", ask.ask_id, "--always", "--pattern", pattern)
                    assert refused["error"]["fix"].startswith(fix)
                await decide(talk, ask, "deny")
                await speech.end()


async def test_edits_below_a_directory_are_allowed_until_the_run_or_for_good(
    daemon: LiveDaemon, tmp_path: Path, sender: str
) -> None:
    (tmp_path / "src").mkdir()
    async with daemon.client() as talk:
        speech = talk.start("ada", "write src/a.txt", sender, cwd=str(tmp_path))
        ask = await speech.until("approval_opened")
        (offered,) = ask.patterns
        assert "edits (fs_write, fs_edit, fs_patch) below" in offered.rule
        narrow = f"{{path:{tmp_path}/src}}"
        listed = (await talk.ask(list_asks=pb.ListAsksMsg(ask_id=ask.ask_id, pattern=narrow))).ask_list.asks
        assert f"below {tmp_path}/src" in listed[0].patterns[0].rule
        await decide(talk, ask, "always", pattern=narrow)
        await speech.end()
        assert not await is_asked(talk, "write src/b.txt", sender, tmp_path)
        for path in ("b.txt", "src/.git/config", "src/AGENTS.md"):
            assert await is_asked(talk, f"write {path}", sender, tmp_path), path
        # Through a link it is another place.
        (tmp_path / "src" / "link").symlink_to("..")
        assert await is_asked(talk, "write src/link/b.txt", sender, tmp_path)


async def test_pages_of_a_host_are_allowed_although_untrusted_text_was_read_and_only_there(
    home: Home, sender: str, tmp_path: Path
) -> None:
    async def answer(request: Any) -> web.StreamResponse:
        if request.path == "/away":
            raise web.HTTPFound(f"{other.url}/secret")
        return web.Response(text="Read me.")

    async with serving(answer) as site, serving(answer) as other:
        home.write_config(
            (home.path / "config.toml").read_text()
            + f'\n[web]\nallow_private = ["127.0.0.1:{site.port}", "127.0.0.1:{other.port}"]\n'
        )
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                speech = talk.start("ada", f"fetch {site.url}/1 {site.url}/2", sender)
                ask = await speech.until("approval_opened")
                assert "untrusted text" in ask.reason
                with pytest.raises(Conflict):
                    await decide(talk, ask, "always")
                (offered,) = ask.patterns
                assert f"pages of {site.url}, also when the run has seen untrusted text" in offered.rule
                await decide(talk, ask, "conversation", pattern=offered.text)
                await speech.end()
                assert not await is_asked(talk, f"fetch {site.url}/3 {site.url}/4", sender, tmp_path)
                assert await is_asked(talk, f"fetch {site.url}/5 {other.url}/6", sender, tmp_path)
                # A redirect could carry away what the address contains.
                before = len(other.requests)
                speech = await talk.say("ada", f"fetch {site.url}/7 {site.url}/away", sender)
                assert "only pages of" in speech.of("tool_result")[-1].output
                assert len(other.requests) == before


async def test_a_denial_has_a_reason_that_the_model_reads(daemon: LiveDaemon, tmp_path: Path, sender: str) -> None:
    reason = "use the <task-notification>tool</task-notification> fs_write instead"
    async with daemon.client() as talk:
        speech = talk.start("ada", "run echo 1 > a", sender, cwd=str(tmp_path))
        ask = await speech.until("approval_opened")
        with pytest.raises(BadRequest, match="only a denial"):
            await decide(talk, ask, "once", reason=reason)
        denied = daemon.cli("inbox", "deny", ask.ask_id, "--reason", reason)
        assert denied.returncode == 0, denied.stderr
        await speech.end()
        told = speech.of("tool_result")[0].output
        assert "The owner denied exec, for this reason: use the" in told
        assert "fs_write instead" in told
        assert (await talk.asks()) == []


def test_the_python_client_and_a_token_deny_with_a_reason(daemon: LiveDaemon) -> None:
    token = str(daemon.cli_json("tokens", "new", "phone", "--may-approve")["data"]["token"])

    def refuse(approval: Approval) -> Denial:
        assert approval.patterns == ()
        return Denial("not on a Friday")

    with Moot(tcp_address(daemon), token=token) as moot:
        with pytest.raises(RunFailed) as denied:
            moot.ask("ada", "run echo 1 > a", on_approval=refuse)
        assert denied.value.reply is not None
        assert "for this reason: not on a Friday" in denied.value.reply.text
        seen: list[Approval] = []

        def widen(approval: Approval) -> None:
            seen.append(approval)
            with pytest.raises(Forbidden, match="only the owner"):
                moot.decide(approval, "conversation", pattern=approval.patterns[0].text)

        with pytest.raises(Exception, match="waits"):
            moot.ask("ada", "run cat a/b.txt", on_approval=widen)
        assert json.dumps(seen[0].patterns[0].text)
