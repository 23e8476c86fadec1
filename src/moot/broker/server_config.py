"""Writes the configuration of a NATS server on which each daemon can act only under its own name.

Used by `moot nats config`. What a daemon needs is what nats_link.py and nats_consumer.py do.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from moot.broker.nats_stream import STREAM, make_malformed_name
from moot.domain.ports.broker import INBOX_SUBJECT, NOTICE_SUBJECT, PRESENCE_SUBJECT


class NatsUser(Struct, frozen=True):
    """The key pair of a daemon: the server knows the public key, the daemon has the seed."""

    seed: str
    public_key: str


def make_user(seed: str = "") -> NatsUser:
    """Return the user with this seed, or with a new one. Raise ValueError for what is no seed."""
    import nkeys  # noqa: PLC0415 - part of the extra

    given = seed.encode() or nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    try:
        return NatsUser(given.decode(), nkeys.from_seed(bytearray(given)).public_key.decode())
    except nkeys.NkeysError as error:
        raise ValueError("it is no seed") from error


def list_publish_subjects(name: str) -> list[str]:
    """Return what a daemon may publish to: mail, its own presence, and what concerns its own consumers."""
    consumers = (name, make_malformed_name(name))
    return [
        f"{INBOX_SUBJECT}*",
        f"{NOTICE_SUBJECT}*",
        f"{PRESENCE_SUBJECT}{name}",
        f"$JS.API.STREAM.CREATE.{STREAM}",
        f"$JS.API.STREAM.INFO.{STREAM}",
        *(f"$JS.API.CONSUMER.CREATE.{STREAM}.{consumer}.>" for consumer in consumers),
        *(f"$JS.API.CONSUMER.DELETE.{STREAM}.{consumer}" for consumer in consumers),
        *(f"$JS.ACK.{STREAM}.{consumer}.>" for consumer in consumers),
    ]


def list_subscribe_subjects(name: str) -> list[str]:
    return [f"_INBOX.{name}.>", f"{PRESENCE_SUBJECT}*"]


def make_server_config(users: Mapping[str, NatsUser], *, listen: str, folder: Path) -> str:
    """Return the text of the configuration file."""
    entries = "\n".join(_describe_user(name, user) for name, user in users.items())
    return f"""\
# Written by `moot nats config`. Start the server: nats-server -c {folder / "nats-server.conf"}
listen: {json.dumps(listen)}

jetstream {{
  store_dir: {json.dumps(str(folder / "jetstream"))}
}}

# Without TLS, whoever can see the network can read the messages.
# tls {{
#   cert_file: {json.dumps(str(folder / "server-cert.pem"))}
#   key_file: {json.dumps(str(folder / "server-key.pem"))}
# }}

authorization {{
  users: [
{entries}
  ]
}}
"""


def _describe_user(name: str, user: NatsUser) -> str:
    return f"""\
    # {name}
    {{
      nkey: {user.public_key}
      permissions {{
        publish {{ allow: {json.dumps(list_publish_subjects(name))} }}
        subscribe {{ allow: {json.dumps(list_subscribe_subjects(name))} }}
      }}
    }}"""
