"""The time zone of this computer: named by TZ in each of its forms."""

import pytest

from moot.daemon.local_zone import find_local_zone


@pytest.mark.parametrize(
    "given", ["Asia/Tokyo", ":Asia/Tokyo", "/usr/share/zoneinfo/Asia/Tokyo", ":/usr/share/zoneinfo/Asia/Tokyo"]
)
def test_the_zone_that_tz_names_is_used(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", given)
    assert find_local_zone() == "Asia/Tokyo"


@pytest.mark.parametrize("given", ["", "nonsense/zone", "/etc/passwd", ":"])
def test_what_names_no_zone_is_left_to_the_system(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    system = find_local_zone()
    monkeypatch.setenv("TZ", given)
    assert find_local_zone() == system
