"""The vault: what is kept, who can open it, what an agent gets, what the audit says."""

import asyncio
import base64
import json
import logging
from pathlib import Path

import apsw
import pytest

from moot.daemon.vault.seal import Seal
from moot.domain.errors import BadRequest, Forbidden, MootError, NotFound, Unavailable
from moot.domain.secret import Holder, SecretScope
from tests.unit.daemon.vault.vault_kit import run, vault_at

OWNER = Holder(sender="user")
VALUE = "ghp_4tRk9ZxQm2Lw7Vb1"


async def test_an_agent_gets_a_reference_and_a_command_gets_the_value(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)
        answer = json.loads(await kit.call("secrets_get", name="TOKEN"))
        assert answer["value"] == "{{secret:TOKEN}}"
        assert answer.keys() == {"success", "name", "value", "note"}
        assert await kit.vault.resolve("curl {{secret:TOKEN}}", run(), tool="exec") == {"{{secret:TOKEN}}": VALUE}


async def test_a_secret_survives_a_restart_and_is_redacted_from_the_start(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)
    async with vault_at(tmp_path) as kit:
        assert kit.redactor.mask_secrets(f"it is {VALUE}") == "it is [SECRET:TOKEN]"
        assert await kit.vault.resolve("{{secret:TOKEN}}", run(), tool="exec") == {"{{secret:TOKEN}}": VALUE}


async def test_no_key_is_made_before_there_is_a_secret(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        assert json.loads(await kit.call("secrets_list")) == {"secrets": [], "count": 0}
        assert not kit.master.exists
        assert kit.master.place == "none"


async def test_every_use_is_in_the_audit_with_who_did_it(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)
        await kit.call("secrets_get", name="TOKEN")
        await kit.vault.set_scope("TOKEN", "user", SecretScope(senders=("tg:*",)), OWNER)
        await kit.vault.resolve("{{secret:TOKEN}} {{secret:TOKEN}}", run("bob", "tg:1"), tool="exec")
        await kit.call("secrets_delete", name="TOKEN")
        uses = [(use.action, use.holder.agent, use.holder.sender, use.holder.tool) for use in await kit.vault.audit()]
        assert uses == [
            ("delete", "ada", "user", "secrets_delete"),
            ("resolve", "bob", "tg:1", "exec"),
            ("scope", "", "user", ""),
            ("reference", "ada", "user", "secrets_get"),
            ("store", "", "user", ""),
        ]
        assert await kit.vault.audit(name="OTHER") == []


async def test_a_reference_to_nothing_gives_no_value_at_all(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)
        with pytest.raises(NotFound, match="NONE"):
            await kit.vault.resolve("{{secret:TOKEN}} {{secret:NONE}}", run(), tool="exec")
        assert [use.action for use in await kit.vault.audit()] == ["store"]


async def test_storing_by_tool_masks_its_value_and_says_what_it_replaced(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        first = json.loads(await kit.call("secrets_store", name="TOKEN", value=VALUE))
        second = json.loads(await kit.call("secrets_store", name="TOKEN", value=VALUE + "2"))
        assert first == {"success": True, "message": "The secret TOKEN is stored."}
        assert second["message"] == "The secret TOKEN is replaced."
        tool = kit.tools["secrets_store"]
        arguments = {"name": "TOKEN", "value": VALUE}
        shown = tool.line(arguments) + await tool.preview(arguments, run())  # type: ignore[attr-defined]
        assert VALUE not in shown
        assert "Replaces" in shown
        listed = json.loads(await kit.call("secrets_list"))
        assert listed["count"] == 1
        assert listed["secrets"][0].keys() == {"name", "createdAt", "updatedAt", "accessCount"}


async def test_what_was_encrypted_comes_back_as_a_reference_for_one_conversation_and_a_while(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        sealed = json.loads(await kit.call("crypto_encrypt", data=VALUE))["ciphertext"]
        assert VALUE.encode() not in base64.b64decode(sealed)
        answer = json.loads(await kit.call("crypto_decrypt", ciphertext=sealed))
        token = answer["data"]
        assert VALUE not in json.dumps(answer)
        assert kit.redactor.mask_secrets(VALUE).startswith("[SECRET:decrypted:")
        assert await kit.vault.resolve(token, run(), tool="exec") == {token: VALUE}
        with pytest.raises(NotFound):
            await kit.vault.resolve(token, run("ada", "someone else"), tool="exec")
        await kit.clock.advance(300)
        with pytest.raises(NotFound):
            await kit.vault.resolve(token, run(), tool="exec")
        # A process that was given it may still print it; only later is it forgotten altogether.
        assert kit.redactor.mask_secrets(VALUE) != VALUE
        await kit.clock.advance(3600)
        kit.vault.tidy()
        assert kit.redactor.mask_secrets(VALUE) == VALUE


async def test_a_decrypted_value_can_be_stored_and_a_secret_encrypted_without_being_seen(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)
        sealed = json.loads(await kit.call("crypto_encrypt", data="key={{secret:TOKEN}}"))["ciphertext"]
        token = json.loads(await kit.call("crypto_decrypt", ciphertext=sealed))["data"]
        await kit.call("secrets_store", name="COPY", value=token)
        assert await kit.vault.resolve("{{secret:COPY}}", run(), tool="exec") == {"{{secret:COPY}}": f"key={VALUE}"}
        with pytest.raises(BadRequest):
            await kit.call("secrets_store", name="COPY", value=f"x {token}")


async def test_a_hash_is_of_the_text_as_it_stands(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)
        plain = json.loads(await kit.call("crypto_hash", data="abc"))
        assert plain["hash"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        # The hash of a short secret would let its reader guess at it.
        of_reference = json.loads(await kit.call("crypto_hash", data="{{secret:TOKEN}}", algorithm="sha512"))
        assert len(of_reference["hash"]) == 128
        assert [use.action for use in await kit.vault.audit()] == ["store"]
        with pytest.raises(BadRequest, match="unsupported algorithm: md5"):
            await kit.call("crypto_hash", data="abc", algorithm="md5")


async def test_a_signature_can_be_checked_and_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        first = json.loads(await kit.call("crypto_sign", data="hello"))["signature"]
    async with vault_at(tmp_path) as kit:
        assert json.loads(await kit.call("crypto_sign", data="hello"))["signature"] == first
        keys = json.loads(await kit.call("crypto_keys"))
        assert [(key["id"], key["type"]) for key in keys["keys"]] == [("local", "signing")]
        assert len(base64.b64decode(first)) == 64
        with pytest.raises(NotFound, match="no encryption key 'local'"):
            await kit.call("crypto_encrypt", data="x", keyId="local")
        with pytest.raises(NotFound, match="no signing key 'other'"):
            await kit.call("crypto_sign", data="x", keyId="other")


async def test_two_first_uses_at_once_make_one_key(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        async with asyncio.TaskGroup() as group:
            made = [group.create_task(kit.call("crypto_encrypt", data=f"text {n}")) for n in range(8)]
        for task in made:
            await kit.call("crypto_decrypt", ciphertext=json.loads(task.result())["ciphertext"])
        assert len(await kit.keychain.list_all()) == 1


@pytest.mark.parametrize("text", ["not base64!", "AAAA", base64.b64encode(bytes(64)).decode()])
async def test_a_ciphertext_that_is_not_ours_is_refused(tmp_path: Path, text: str) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.call("crypto_encrypt", data="x")
        with pytest.raises(BadRequest):
            await kit.call("crypto_decrypt", ciphertext=text)


async def test_a_sealed_value_moved_to_another_name_cannot_be_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("HARMLESS", "nothing to see", OWNER)
        await kit.vault.store("ADMIN", VALUE, OWNER)
    db = apsw.Connection(str(tmp_path / "moot.db"))
    db.execute("UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'ADMIN') WHERE name = 'HARMLESS'")
    db.close()
    with caplog.at_level(logging.WARNING):
        async with vault_at(tmp_path) as kit:
            assert "'HARMLESS' cannot be opened" in caplog.text
            with pytest.raises(Unavailable, match="HARMLESS"):
                await kit.vault.resolve("{{secret:HARMLESS}}", run(), tool="exec")
            # The other one is as good as ever, and the damaged one can be set again.
            assert await kit.vault.resolve("{{secret:ADMIN}}", run(), tool="exec") == {"{{secret:ADMIN}}": VALUE}
            await kit.vault.store("HARMLESS", "set once more", OWNER)


@pytest.mark.parametrize("loss", ["gone", "other"])
async def test_without_its_key_the_vault_stays_closed_and_nothing_is_sealed_with_another(
    tmp_path: Path, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)
    key = tmp_path / "vault.key"
    kept = key.read_bytes()
    key.unlink()
    if loss == "other":
        async with vault_at(tmp_path / "elsewhere") as kit:
            await kit.vault.store("X", "whatever", OWNER)
        (tmp_path / "elsewhere" / "vault.key").rename(key)
    async with vault_at(tmp_path) as kit:
        assert "the vault stays closed" in caplog.text
        for work in (
            kit.vault.store("NEW", "some value", OWNER),
            kit.vault.resolve("{{secret:TOKEN}}", run(), tool="exec"),
            kit.vault.reference("TOKEN", run(), tool="secrets_get"),
        ):
            with pytest.raises(Unavailable) as refused:
                await work
            assert refused.value.fix
        assert [info.name for info in await kit.vault.list_all()] == ["TOKEN"]
    key.write_bytes(kept)
    key.chmod(0o600)
    async with vault_at(tmp_path) as kit:
        assert await kit.vault.resolve("{{secret:TOKEN}}", run(), tool="exec") == {"{{secret:TOKEN}}": VALUE}


def test_no_two_seals_of_one_text_are_alike_and_no_byte_of_one_can_be_changed() -> None:
    seal = Seal(bytes(range(32)))
    sealed = seal.close(b"text", place="here")
    assert seal.close(b"text", place="here") != sealed
    assert seal.open(sealed, place="here") == b"text"
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(ValueError, match="seal"):
            seal.open(bytes(changed), place="here")
    with pytest.raises(ValueError, match="another key"):
        seal.open(sealed, place="there")
    with pytest.raises(ValueError, match="not a sealed"):
        seal.open(sealed[:20], place="here")


async def test_no_error_of_the_vault_repeats_a_value(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        for name, value in (("bad name", VALUE), ("TOKEN", VALUE * 2000), ("TOKEN", f"{VALUE}\0")):
            with pytest.raises(MootError) as refused:
                await kit.call("secrets_store", name=name, value=value)
            assert VALUE not in f"{refused.value.message} {refused.value.fix}"


async def test_a_call_is_judged_by_whose_secret_it_uses_and_by_the_scope(tmp_path: Path) -> None:
    async with vault_at(tmp_path) as kit:
        await kit.vault.store("TOKEN", VALUE, OWNER)

        async def judge(
            agent: str = "ada", sender: str = "user", tool: str = "exec", host: str = ""
        ) -> tuple[str, str]:
            return await kit.vault.judge("{{secret:TOKEN}}", run(agent, sender), tool=tool, host=host)

        asks = ("", "it uses the secret TOKEN")
        assert await judge() == asks
        # Whether another sender has one of this name cannot be told from the answer.
        assert await judge(sender="tg:1") == asks
        await kit.vault.set_scope("TOKEN", "user", SecretScope(agents=("ada",), tools=("exec",)), OWNER)
        assert await judge() == ("", "")
        assert await judge(sender="tg:1") == asks
        assert "not for the agent bob" in (await judge("bob"))[0]
        assert "not for the tool web_fetch" in (await judge(tool="web_fetch"))[0]
        hosts = SecretScope(agents=("*",), tools=("*",), hosts=("api.example.org",))
        await kit.vault.set_scope("TOKEN", "user", hosts, OWNER)
        assert await judge() == asks
        assert await judge(tool="web_fetch", host="api.example.org") == ("", "")
        assert "not for the host evil.example" in (await judge(tool="web_fetch", host="evil.example"))[0]
        await kit.vault.set_scope("TOKEN", "user", SecretScope(agents=("bob",)), OWNER)
        with pytest.raises(Forbidden, match="not for the agent"):
            await kit.vault.resolve("{{secret:TOKEN}}", run(), tool="exec")
        assert (await kit.vault.judge("{{decrypt:abc}}", run(), tool="exec", host=""))[1] == "it uses a decrypted value"
