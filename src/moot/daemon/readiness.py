"""Tells a service manager when the daemon is ready or stops: systemd's notification protocol."""

import os
import socket


class ReadinessNotifier:
    """The service manager that started the daemon, if there is one.

    Its socket is taken out of the environment, so that tools cannot report in the daemon's name.
    """

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")

    def notify(self, state: str, status: str = "") -> None:
        """Report `READY=1` or `STOPPING=1`. A service manager that cannot be reached is ignored."""
        if not self._address.startswith(("/", "@")):
            return
        # An address in the abstract namespace is written with @ and begins with a NUL.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        text = state + (f"\nSTATUS={status}" if status else "")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(text.encode(), address)
            except OSError:
                return
