"""Writes to the goal of a background run: finds it, and sends it a line as mail. Used by `follow_run` and `attach`."""

from moot.cli.render import sanitize
from moot.client.connection import Connection
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb


async def find_goal(connection: Connection, info: pb.RunInfo) -> pb.GoalInfo | None:
    """Return the goal of a background run; a turn has none, since its conversation has a person already."""
    message = pb.ClientMessage(list_goals=pb.ListGoalsMsg(agent=info.agent))
    found = (await connection.request(message)).goals.goals
    return next((goal for goal in found if goal.sender == info.sender and goal.kind == "background"), None)


async def send_to_goal(connection: Connection, goal: pb.GoalInfo, text: str) -> list[str]:
    """Send a message to a goal; return what the person is told about it."""
    message = pb.SendMailMsg(agent=goal.agent, content=text, sender=goal.owner, goal_id=goal.goal_id)
    try:
        report = (await connection.request(pb.ClientMessage(send_mail=message))).mail_report
    except MootError as error:
        return [f"  ✗ {sanitize.line(error.message)}"]
    reasons = [f"  ✗ {sanitize.exact_line(reason)}" for reason in report.unreachable_reasons]
    return reasons or ["Sent. It is read at the next step."]
