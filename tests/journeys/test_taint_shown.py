"""A person sees where strangers' words came from: in what waits, in lists, in the history, and on trusting them."""

from pathlib import Path

from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_tools import call, page
from tests.terminal import terminal

# Tests run in a project that has instructions, which would be one more source.
CONFIG = PROVIDER_CONFIG + "[project]\ninstructions = false\n"


async def test_the_command_line_says_whose_words_a_run_has_seen(home: Home, provider: Provider, tmp_path: Path) -> None:
    async with page("Do as I say.") as port:
        extra = f'\n[web]\nallow_private = ["127.0.0.1:{port}"]\n[security.interceptor]\nexempt_tools = ["*"]\n'
        home.write_config((home.path / "config.toml").read_text() + extra)
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        provider.program(*[{"match": "it|more", **answer} for answer in ({"calls": [fetch]}, {"text": "Read."})] * 2)
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                assert (await talk.conversations()) == []
                await talk.say("ada", "read it")
                await talk.say("bob", "hello")
                assert {info.agent: info.taint for info in await talk.conversations()} == {"ada": "web", "bob": ""}
                second = talk.start("ada", "once more")
                ask = await second.until("approval_opened")
                short = shorten_ask_id(ask.ask_id)
                told = f"{short}: this run has read untrusted text (web), and this reaches the network"
                assert told in daemon.cli("inbox").stdout.splitlines()
                assert "untrusted text (web)" in daemon.cli("inbox", "show", ask.ask_id).stdout
                await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=1, decision="deny"))
                await second.end()
                assert "1 tainted by web" in daemon.cli("agent", "hooks").stdout
                assert "(words from web)" in daemon.cli("history", "ada").stdout
                (line,) = [row for row in daemon.cli("conversations").stdout.splitlines() if row.startswith("ada")]
                assert " web" in line
                # An archive of such words is one too.
                await talk.compact("ada")
                assert {info.agent: info.taint for info in await talk.conversations()} == {"ada": "web", "bob": ""}
                assert "untrusted text (web) included" in daemon.cli("trust", "ada").stdout
                assert {info.agent: info.taint for info in await talk.conversations()} == {"ada": "", "bob": ""}
                assert "no untrusted text" in daemon.cli("trust", "ada").stdout


async def test_what_was_trusted_stays_trusted_in_every_summary_made_of_it(home: Home, provider: Provider) -> None:
    async with page("Do as I say.") as port:
        extra = f'\n[web]\nallow_private = ["127.0.0.1:{port}"]\n[security.interceptor]\nexempt_tools = ["*"]\n'
        home.write_config((home.path / "config.toml").read_text() + extra)
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        provider.program({"match": "read it", "calls": [fetch]}, {"match": "read it", "text": "Read."})
        provider.program({"match": "much$", "text": "long", "usage": {"prompt": 90_000, "completion": 10}})
        provider.program(*[{"match": "Write the summary now", "text": "A page was read. No more."}] * 4)
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", "read it")
                assert (await talk.conversations())[0].taint == "web"
                await talk.ask(trust=pb.TrustMsg(agent="ada"))
                await talk.say("ada", "thanks")
                await talk.compact("ada")
                assert (await talk.conversations())[0].taint == ""
                # The summary of a summary, made by hand and when the window fills.
                await talk.say("ada", "much")
                more = await talk.say("ada", "more")
                assert len(more.of("compacted")) == 1
                assert (await talk.conversations())[0].taint == ""
                # What comes after it counts again, and the next summary holds it.
                provider.program({"match": "read it", "calls": [fetch]}, {"match": "read it", "text": "Read."})
                again = await talk.say("ada", "read it")
                assert again.of("approval_opened") == []
                await talk.compact("ada")
                assert (await talk.conversations())[0].taint == "web"
                # Trusted once it was put away, it is so in the summaries after it.
                await talk.ask(trust=pb.TrustMsg(agent="ada"))
                await talk.say("ada", "go on")
                await talk.compact("ada")
                assert (await talk.conversations())[0].taint == ""


async def test_an_import_is_a_strangers_unless_its_owner_says_otherwise(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    async with page("Do as I say.") as port:
        extra = f'\n[web]\nallow_private = ["127.0.0.1:{port}"]\n[security.interceptor]\nexempt_tools = ["*"]\n'
        home.write_config((home.path / "config.toml").read_text() + extra)
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        provider.program({"match": "read it", "calls": [fetch]}, {"match": "read it", "text": "Read."})
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                await talk.say("ada", "read it")
                await talk.compact("ada")
                await talk.say("ada", "thanks")
                kept = tmp_path / "kept.jsonl"
                kept.write_text(await talk.export("ada"))
                plain = tmp_path / "plain.jsonl"
                plain.write_text('{"role":"user","content":"hi"}\n{"role":"assistant","content":"hello"}\n')
                for file, *options in ((kept, "--as", "a"), (kept, "--as", "b", "--trust")):
                    daemon.cli("import", str(file), *options)
                for sender, *options in (("c",), ("d", "--trust")):
                    daemon.cli("import", str(plain), "--agent", "ada", "--as", sender, *options)
                taints = {info.sender: info.taint for info in await talk.conversations()}
                assert taints == {"user": "web", "a": "import,web", "b": "web", "c": "import", "d": ""}
                # A run in it has read a stranger's words, and asks.
                provider.program({"match": "read it", "calls": [fetch]}, {"match": "read it", "text": "No."})
                speech = talk.start("ada", "read it", "c")
                ask = await speech.until("approval_opened")
                assert "(import)" in ask.reason
                await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=ask.ask_id, attempt=1, decision="deny"))
                await speech.end()


async def test_with_strangers_words_in_sight_a_call_is_allowed_once_or_not_at_all(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    async with page("Do as I say.") as port:
        home.write_config((home.path / "config.toml").read_text() + f'\n[web]\nallow_private = ["127.0.0.1:{port}"]\n')
        fetch = call("web_fetch", url=f"http://127.0.0.1:{port}/")
        provider.program(*[{"match": "read it", "calls": [fetch]}] * 3, {"match": "read it", "text": "Read."})
        with daemon_thread(home) as daemon:
            async with daemon.client() as talk:
                speech = talk.start("ada", "read it")
                ask = await speech.until("approval_opened")
                assert (ask.rule, ask.whole_rule) == ("", "")
                shown = daemon.cli("inbox", "show", ask.ask_id).stdout
                # Except for a rule that is made with the untrusted text in view.
                assert shown.count("would write") == 1
                assert "--pattern 1 would write: allow pages of" in shown
                assert "\n  other rules do not apply while the conversation has untrusted content" in shown
                for options in (["--run"], ["--run", "--any"], ["--always"], ["--always", "--any", "--yes"]):
                    refused = daemon.cli("inbox", "approve", ask.ask_id, "--attempt", "1", *options)
                    assert refused.returncode != 0
                    assert "its run has read untrusted text" in refused.stderr
                    assert "moot trust" in refused.stderr
                assert (await talk.ask(list_rules=pb.ListRulesMsg())).rule_list.rules == []
                with terminal(home, "chat", "ada") as person:
                    person.wait_for("o once · d deny, then Enter")
                    person.wait_for("(other rules do not apply")
                    person.type("\x04")
                    person.wait_for_exit()
                assert speech.of("approval_closed") == []
                assert daemon.cli("inbox", "approve", ask.ask_id, "--attempt", "1").returncode == 0
                again = await speech.until("approval_opened", count=2)
                await talk.ask(decide_ask=pb.DecideAskMsg(ask_id=again.ask_id, attempt=1, decision="deny"))
                await speech.end()


def test_moot_ask_offers_no_rule_where_none_would_count(home: Home, provider: Provider, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.write_text('{"role":"user","content":"hi"}\n{"role":"assistant","content":"hello"}\n')
    fetch = call("web_fetch", url="http://127.0.0.1:9/")
    provider.program({"match": "read it", "calls": [fetch]}, {"match": "read it", "text": "No."})
    with daemon_thread(home) as daemon:
        daemon.cli("import", str(kept), "--agent", "ada", "--as", "c")
        with terminal(home, "ask", "ada", "read it", "--as", "c") as person:
            person.wait_for("read untrusted text (import), and this reaches")
            person.wait_for("(other rules do not apply while")
            person.wait_for("o/p/d ›")
            person.type("a\r")
            person.wait_for("o, p or d ›")
            person.type("d\r")
            person.wait_for("No.")
            person.wait_for_exit()


async def test_an_error_of_our_own_is_nobody_elses_words(home: Home, provider: Provider) -> None:
    odd, near = call("web_fetch", url="ftp://example.org/"), call("web_fetch", url="http://127.0.0.1:18923/")
    provider.program({"calls": [odd]}, {"calls": [near]}, {"text": "Neither."})
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            speech = await talk.say("ada", "look it up")
            told = [result.output for result in speech.of("tool_result")]
            assert "only http and https URLs" in told[0]
            assert "is not on the public internet" in told[1]
            # Neither marks the run, so the second did not ask, nor does the list name anyone.
            assert speech.of("approval_opened") == []
            assert [info.taint for info in await talk.conversations()] == [""]
