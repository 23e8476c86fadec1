"""Goals, peers and mail as plain data for JSON output. Used by cli/commands/peers.py."""

from typing import Any

from moot.wire import moot_pb2 as pb


def to_goal_data(info: pb.GoalInfo) -> dict[str, Any]:
    return {
        "goal_id": info.goal_id,
        "agent": info.agent,
        "sender": info.sender,
        "owner": info.owner,
        "kind": info.kind,
        "state": info.state,
        "label": info.label,
        "unread": info.unread,
        "active_at": info.active_at,
    }


def to_peer_data(info: pb.PeerInfo) -> dict[str, Any]:
    elsewhere = {"daemon": info.daemon, "last_seen": info.last_seen} if info.daemon else {}
    return {
        "agent_id": info.agent_id,
        "description": info.description,
        "reachable": info.reachable,
        "wake": info.wake,
        "muted": info.muted,
        "goals": info.goals,
        "unread": info.unread,
        **elsewhere,
    }


def to_mail_data(info: pb.MailInfo) -> dict[str, Any]:
    shown = {
        "mail_id": info.mail_id,
        "from_agent_id": info.from_agent,
        "from_goal_id": info.from_goal,
        "to_agent_id": info.to_agent,
        "goal_id": info.goal_id,
        "body": info.body,
        "sent_at": info.sent_at,
    }
    optional = {"correlation_id": info.correlation_id, "reason": info.reason}
    return {**shown, **{name: text for name, text in optional.items() if text}}


def to_dead_mail_data(info: pb.DeadMailInfo) -> dict[str, Any]:
    return {**to_mail_data(info.mail), "evicted_at": info.evicted_at}


def to_outbox_data(info: pb.OutboxItemInfo) -> dict[str, Any]:
    return {**to_mail_data(info.mail), "state": "sent" if info.published else "queued"}


def to_daemon_data(info: pb.OtherDaemonInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "state": "live" if info.live else "away",
        "last_seen": info.last_seen,
        "fingerprint": info.fingerprint,
        "version": info.version,
        "problem": info.problem,
    }
