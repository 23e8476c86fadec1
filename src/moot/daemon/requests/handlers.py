"""The table of request handlers. A test checks that it is complete."""

from collections.abc import Awaitable, Callable

from moot.daemon.principal import Principal
from moot.daemon.requests.agent_data import AgentDataRequests
from moot.daemon.requests.asks import AskRequests
from moot.daemon.requests.conversations import ConversationRequests
from moot.daemon.requests.cron import CronRequests
from moot.daemon.requests.daemon_info import DaemonRequests
from moot.daemon.requests.documents import DocumentRequests
from moot.daemon.requests.graph import GraphRequests
from moot.daemon.requests.jobs import JobRequests
from moot.daemon.requests.knowledge import KnowledgeRequests
from moot.daemon.requests.mcp import McpRequests
from moot.daemon.requests.modes import ModeRequests
from moot.daemon.requests.peers import PeerRequests
from moot.daemon.requests.records import RecordRequests
from moot.daemon.requests.reply import Reply
from moot.daemon.requests.resume import ResumeRequests
from moot.daemon.requests.runs import RunRequests
from moot.daemon.requests.secrets import SecretRequests
from moot.daemon.requests.steps import StepRequests
from moot.daemon.requests.talk import TalkRequests
from moot.daemon.requests.team_info import TeamInfoRequests
from moot.daemon.requests.traces import TraceRequests
from moot.daemon.requests.undo import UndoRequests
from moot.daemon.requests.visits import VisitRequests
from moot.daemon.requests.vocabularies import VocabularyRequests
from moot.daemon.requests.workflows import WorkflowRequests
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb

Handler = Callable[[pb.ClientMessage, Principal, Reply], Awaitable[None]]


class Handlers:
    def __init__(  # noqa: PLR0913 — whoever answers, each by name
        self,
        *,
        talk: TalkRequests,
        conversations: ConversationRequests,
        records: RecordRequests,
        daemon_info: DaemonRequests,
        asks: AskRequests,
        secrets: SecretRequests,
        mcp: McpRequests,
        team_info: TeamInfoRequests,
        runs: RunRequests,
        jobs: JobRequests,
        traces: TraceRequests,
        steps: StepRequests,
        undo: UndoRequests,
        modes: ModeRequests,
        resume: ResumeRequests,
        agent_data: AgentDataRequests,
        peers: PeerRequests,
        visits: VisitRequests,
        cron: CronRequests,
        workflows: WorkflowRequests,
        graph: GraphRequests,
        documents: DocumentRequests,
        knowledge: KnowledgeRequests,
        vocabularies: VocabularyRequests,
    ) -> None:
        self.table: dict[str, Handler] = {
            "send": talk.send,
            "stream": talk.stream,
            "attach": talk.attach,
            "kill": talk.kill,
            "withdraw": talk.withdraw,
            "find_retried": talk.find_retried,
            "compact": talk.compact,
            "reply_to_ask": talk.reply_to_ask,
            "subscribe_events": talk.subscribe_events,
            "list_conversations": conversations.list_conversations,
            "list_active_conversations": conversations.list_active_conversations,
            "get_history": records.get_history,
            "list_archives": records.list_archives,
            "get_archive": records.get_archive,
            "recall": records.recall,
            "export": records.export,
            "import": records.import_,
            "delete": records.delete,
            "get_usage": records.get_usage,
            "list_agents": daemon_info.list_agents,
            "get_agent": daemon_info.get_agent,
            "get_agent_status": team_info.get_agent_status,
            "list_agent_tools": team_info.list_agent_tools,
            "list_vocabularies": vocabularies.list_vocabularies,
            "write_vocabulary": vocabularies.write_vocabulary,
            "start_run": runs.start_run,
            "list_runs": runs.list_runs,
            "get_run": runs.get_run,
            "attach_run": runs.attach_run,
            "wait_runs": runs.wait_runs,
            "stop_run": runs.stop_run,
            "get_run_history": runs.get_run_history,
            "list_jobs": jobs.list_jobs,
            "stop_job": jobs.stop_job,
            "list_traces": traces.list_traces,
            "get_trace": traces.get_trace,
            "get_trace_health": traces.get_trace_health,
            "get_prompt": steps.get_prompt,
            "replay_run": steps.replay_run,
            "acknowledge_traces": traces.acknowledge_traces,
            "list_models": daemon_info.list_models,
            "test_model": daemon_info.test_model,
            "list_server_models": daemon_info.list_server_models,
            "list_tokens": daemon_info.list_tokens,
            "new_token": daemon_info.new_token,
            "revoke_token": daemon_info.revoke_token,
            "list_asks": asks.list_asks,
            "decide_ask": asks.decide_ask,
            "list_rules": asks.list_rules,
            "delete_rule": asks.delete_rule,
            "list_hooks": asks.list_hooks,
            "trust": records.trust,
            "working_directory": records.working_directory,
            "undo": undo.undo,
            "mode": modes.mode,
            "visit": visits.visit,
            "open_stretch": resume.open_stretch,
            "conversation_model": resume.conversation_model,
            "list_tasks": agent_data.list_tasks,
            "add_task": agent_data.add_task,
            "change_task": agent_data.change_task,
            "list_memories": agent_data.list_memories,
            "forget_memory": agent_data.forget_memory,
            "save_cron_job": cron.save_cron_job,
            "list_cron_jobs": cron.list_cron_jobs,
            "change_cron_job": cron.change_cron_job,
            "list_firings": cron.list_firings,
            "start_workflow": workflows.start_workflow,
            "get_workflow": workflows.get_workflow,
            "save_workflow": workflows.save_workflow,
            "list_workflows": workflows.list_workflows,
            "remove_workflow": workflows.remove_workflow,
            "get_workflow_run": workflows.get_workflow_run,
            "list_workflow_runs": workflows.list_workflow_runs,
            "cancel_workflow": workflows.cancel_workflow,
            "index_documents": documents.index_documents,
            "search_documents": documents.search_documents,
            "answer_question": documents.answer_question,
            "list_sources": documents.list_sources,
            "forget_source": documents.forget_source,
            "read_graph": graph.read_graph,
            "change_graph": graph.change_graph,
            "import_graph": graph.import_graph,
            "read_knowledge": knowledge.read_knowledge,
            "change_knowledge": knowledge.change_knowledge,
            "list_goals": peers.list_goals,
            "list_peers": peers.list_peers,
            "send_mail": peers.send_mail,
            "list_dead_mail": peers.list_dead_mail,
            "resend_mail": peers.resend_mail,
            "mute_agent": peers.mute_agent,
            "list_daemons": peers.list_daemons,
            "list_outbox": peers.list_outbox,
            "set_secret": secrets.set_secret,
            "list_secrets": secrets.list_secrets,
            "remove_secret": secrets.remove_secret,
            "scope_secret": secrets.scope_secret,
            "audit_secrets": secrets.audit_secrets,
            "list_mcp": mcp.list_mcp,
            "approve_mcp": mcp.approve_mcp,
            "get_stats": daemon_info.get_stats,
            "reload": daemon_info.reload,
            "backup": daemon_info.backup,
            "check": daemon_info.check,
            "ping": _ping,
        }

    def handle(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> Awaitable[None]:
        handler = self.table.get(message.WhichOneof("message") or "")
        if handler is None:
            raise BadRequest("unknown request", fix="See docs/protocol.md.")
        return handler(message, principal, reply)


async def _ping(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
    reply.send(pb.ServerMessage(pong=pb.Pong()))
