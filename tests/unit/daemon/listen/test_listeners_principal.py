"""Principals: who owns which sender, and what a token may be called."""

import asyncio

import pytest

from moot.daemon.clock import ManualClock
from moot.daemon.principal import (
    OWNER,
    Principal,
    Principals,
    check_token,
    make_token,
    token_digest,
)
from moot.domain.errors import BadRequest, Busy, Forbidden, StoreError, Unauthorized
from moot.domain.token import Token
from tests.unit.daemon.listen.listener_fakes import TokenStore

BOT = Principal(name="bot", default_sender="bot", senders=("tg:*", "user"))


@pytest.mark.parametrize("sender", ["bot", "tg:1", "tg:", "user"])
def test_a_principal_owns_its_name_and_its_patterns(sender: str) -> None:
    assert BOT.owns(sender)
    assert BOT.sender(sender) == sender


@pytest.mark.parametrize("sender", ["bot2", "Bot", "tg-1", "xtg:1", "owner"])
def test_another_principals_sender_is_forbidden(sender: str) -> None:
    assert not BOT.owns(sender)
    with pytest.raises(Forbidden) as refused:
        BOT.sender(sender)
    assert refused.value.fix


@pytest.mark.parametrize("principal", [BOT, OWNER, Principal(name="x", default_sender="x", senders=("*",))])
@pytest.mark.parametrize("sender", ["run:1", "cron:daily", "team:1:2", "bg:x"])
def test_nobody_outside_may_use_a_sender_of_the_daemons(principal: Principal, sender: str) -> None:
    assert not principal.owns(sender)
    with pytest.raises(BadRequest):
        principal.sender(sender)


def test_an_empty_sender_is_the_default() -> None:
    assert BOT.sender("") == "bot"
    assert OWNER.sender("") == "user"


def test_a_pattern_without_a_star_is_one_sender() -> None:
    one = Principal(name="bot", default_sender="bot", senders=("tg:1",))
    assert one.owns("tg:1")
    with pytest.raises(Forbidden):
        one.sender("tg:12")


def test_the_owner_owns_every_other_sender() -> None:
    assert OWNER.sender("tg:99") == "tg:99"


@pytest.mark.parametrize("sender", ["a\nb", "a\u202eb", "x" * 201])
def test_a_sender_that_cannot_be_shown_is_refused(sender: str) -> None:
    with pytest.raises(BadRequest):
        OWNER.sender(sender)


def test_only_the_owner_passes_where_the_owner_is_demanded() -> None:
    OWNER.require_owner("make tokens")
    with pytest.raises(Forbidden):
        BOT.require_owner("make tokens")


@pytest.mark.parametrize("name", ["", "a b", "user", "owner", "run:x", "a\x1b[31m"])
def test_a_token_cannot_be_called_that(name: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_token(name, ())
    assert refused.value.fix


@pytest.mark.parametrize("pattern", ["", "run:*", "cron:1"])
def test_a_token_cannot_own_that(pattern: str) -> None:
    with pytest.raises(BadRequest):
        check_token("bot", (pattern,))


def test_a_token_is_long_random_and_kept_as_a_digest() -> None:
    one, other = (make_token("bot", (), now=1.0) for _ in range(2))

    assert one.secret != other.secret
    assert one.secret.startswith("moot_")
    assert len(one.secret) == len("moot_") + 43
    assert one.digest == token_digest(one.secret)
    assert one.secret not in repr(one.token)


def test_a_known_token_is_not_looked_up_again_until_it_is_revoked() -> None:
    async def scene() -> None:
        made = make_token("bot", ("tg:*",), now=1.0)
        store = TokenStore(made)
        principals = Principals(store, ManualClock(1_000.0))  # type: ignore[arg-type]

        found = [await principals.find(made.secret) for _ in range(3)]
        assert found == [Principal(name="bot", default_sender="bot", senders=("tg:*",))] * 3
        assert store.looked_up == 1
        assert store.touched == ["bot"]

        store.by_digest.clear()
        principals.invalidate("bot")
        with pytest.raises(Unauthorized):
            await principals.find(made.secret)

    asyncio.run(scene())


def test_when_a_token_was_used_is_written_once_a_minute_and_a_full_disk_locks_nobody_out() -> None:
    class FullDisk(TokenStore):
        async def touch_token(self, name: str, *, now: float) -> None:
            await super().touch_token(name, now=now)
            raise StoreError("no space left")

    async def scene() -> None:
        made = make_token("bot", (), now=1.0)
        store, clock = FullDisk(made), ManualClock(1_000.0)
        principals = Principals(store, clock)  # type: ignore[arg-type]
        for _ in range(3):
            assert (await principals.find(made.secret)).name == "bot"
            await clock.advance(29)
        assert store.touched == ["bot"]
        await clock.advance(29)
        await principals.find(made.secret)
        assert store.touched == ["bot", "bot"]

    asyncio.run(scene())


def test_a_revoked_token_in_the_store_is_no_token() -> None:
    async def scene() -> None:
        made = make_token("bot", (), now=1.0)
        store = TokenStore(made)
        from msgspec.structs import replace

        store.by_digest[made.digest] = replace(made.token, revoked_at=2.0)
        with pytest.raises(Unauthorized):
            await Principals(store, ManualClock(1_000.0)).find(made.secret)  # type: ignore[arg-type]

    asyncio.run(scene())


@pytest.mark.parametrize("gap", ["find_token", "touch_token"])
def test_a_token_revoked_while_it_is_looked_up_is_no_token(gap: str) -> None:
    async def scene() -> None:
        made = make_token("bot", (), now=1.0)

        class Gap(TokenStore):
            async def find_token(self, digest: str) -> Token | None:
                found = await super().find_token(digest)
                self._revoke("find_token")
                return found

            async def touch_token(self, name: str, *, now: float) -> None:
                self._revoke("touch_token")

            def _revoke(self, where: str) -> None:
                if where == gap:
                    self.by_digest.clear()
                    principals.invalidate("bot")

        principals = Principals(Gap(made), ManualClock(1_000.0))  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(Unauthorized):
                await principals.find(made.secret)

    asyncio.run(scene())


def test_many_guesses_at_once_are_many_and_a_good_token_passes_among_them() -> None:
    async def scene() -> None:
        made = make_token("bot", (), now=1.0)
        let_go = asyncio.Event()

        class Slow(TokenStore):
            async def find_token(self, digest: str) -> Token | None:
                await let_go.wait()
                return await super().find_token(digest)

        principals = Principals(Slow(made), ManualClock(1_000.0))  # type: ignore[arg-type]
        guesses = [asyncio.ensure_future(principals.find(f"moot_{guess}")) for guess in range(100)]
        good = asyncio.ensure_future(principals.find(made.secret))
        await asyncio.sleep(0)
        let_go.set()
        told = await asyncio.gather(*guesses, return_exceptions=True)
        assert sum(isinstance(error, Unauthorized) for error in told) == 10
        assert sum(isinstance(error, Busy) for error in told) == 90
        assert (await good).name == "bot"

    asyncio.run(scene())
