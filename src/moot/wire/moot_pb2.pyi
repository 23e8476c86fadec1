from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEXT_DELTA: _ClassVar[AgentEventKind]
    THINKING_DELTA: _ClassVar[AgentEventKind]
    TOOL_START: _ClassVar[AgentEventKind]
    TOOL_RESULT: _ClassVar[AgentEventKind]
    TOOLS_COMPLETE: _ClassVar[AgentEventKind]
    DONE: _ClassVar[AgentEventKind]
    TEXT_START: _ClassVar[AgentEventKind]
    TEXT_END: _ClassVar[AgentEventKind]
    THINKING_START: _ClassVar[AgentEventKind]
    THINKING_END: _ClassVar[AgentEventKind]
    STARTED: _ClassVar[AgentEventKind]
    QUEUED: _ClassVar[AgentEventKind]
    ASK: _ClassVar[AgentEventKind]
    ASK_CLOSED: _ClassVar[AgentEventKind]
    RETRYING: _ClassVar[AgentEventKind]
    COMPACTED: _ClassVar[AgentEventKind]
    DISCARDED: _ClassVar[AgentEventKind]
    APPROVAL: _ClassVar[AgentEventKind]
    APPROVAL_CLOSED: _ClassVar[AgentEventKind]
    TOOL_EXECUTED: _ClassVar[AgentEventKind]
    SPAWNED: _ClassVar[AgentEventKind]
    BLOCKED: _ClassVar[AgentEventKind]
    UNBLOCKED: _ClassVar[AgentEventKind]
    GAP: _ClassVar[AgentEventKind]
    COMMAND_STARTED: _ClassVar[AgentEventKind]
    COMMAND_ENDED: _ClassVar[AgentEventKind]
    WITHDRAWN: _ClassVar[AgentEventKind]
    STEERED: _ClassVar[AgentEventKind]
    COMPACTING: _ClassVar[AgentEventKind]
    MODE_CHANGED: _ClassVar[AgentEventKind]
    PREPARING: _ClassVar[AgentEventKind]
    RELOADED: _ClassVar[AgentEventKind]
    MAIL_SENT: _ClassVar[AgentEventKind]
    MAIL_DELIVERED: _ClassVar[AgentEventKind]
    MAIL_READ: _ClassVar[AgentEventKind]
    MAIL_EVICTED: _ClassVar[AgentEventKind]
    MAIL_DROPPED: _ClassVar[AgentEventKind]
    BRIDGE_REFUSED: _ClassVar[AgentEventKind]
    USER_MESSAGE: _ClassVar[AgentEventKind]
    PRIVATE_TEXT: _ClassVar[AgentEventKind]
TEXT_DELTA: AgentEventKind
THINKING_DELTA: AgentEventKind
TOOL_START: AgentEventKind
TOOL_RESULT: AgentEventKind
TOOLS_COMPLETE: AgentEventKind
DONE: AgentEventKind
TEXT_START: AgentEventKind
TEXT_END: AgentEventKind
THINKING_START: AgentEventKind
THINKING_END: AgentEventKind
STARTED: AgentEventKind
QUEUED: AgentEventKind
ASK: AgentEventKind
ASK_CLOSED: AgentEventKind
RETRYING: AgentEventKind
COMPACTED: AgentEventKind
DISCARDED: AgentEventKind
APPROVAL: AgentEventKind
APPROVAL_CLOSED: AgentEventKind
TOOL_EXECUTED: AgentEventKind
SPAWNED: AgentEventKind
BLOCKED: AgentEventKind
UNBLOCKED: AgentEventKind
GAP: AgentEventKind
COMMAND_STARTED: AgentEventKind
COMMAND_ENDED: AgentEventKind
WITHDRAWN: AgentEventKind
STEERED: AgentEventKind
COMPACTING: AgentEventKind
MODE_CHANGED: AgentEventKind
PREPARING: AgentEventKind
RELOADED: AgentEventKind
MAIL_SENT: AgentEventKind
MAIL_DELIVERED: AgentEventKind
MAIL_READ: AgentEventKind
MAIL_EVICTED: AgentEventKind
MAIL_DROPPED: AgentEventKind
BRIDGE_REFUSED: AgentEventKind
USER_MESSAGE: AgentEventKind
PRIVATE_TEXT: AgentEventKind

class ClientMessage(_message.Message):
    __slots__ = ("request_id", "send", "stream", "reply_to_ask", "list_active_conversations", "kill", "compact", "list_conversations", "list_agents", "get_agent", "ping", "reload", "get_stats", "subscribe_events", "hello", "get_history", "list_archives", "get_archive", "export", "delete", "get_usage", "recall", "list_tokens", "new_token", "revoke_token", "list_models", "test_model", "backup", "attach", "list_asks", "check", "decide_ask", "list_rules", "delete_rule", "list_hooks", "trust", "working_directory", "list_server_models", "set_secret", "list_secrets", "remove_secret", "audit_secrets", "scope_secret", "list_mcp", "approve_mcp", "get_agent_status", "list_agent_tools", "list_vocabularies", "write_vocabulary", "start_run", "list_runs", "get_run", "attach_run", "wait_runs", "stop_run", "get_run_history", "list_jobs", "stop_job", "withdraw", "find_retried", "list_traces", "get_trace", "get_trace_health", "get_prompt", "replay_run", "undo", "mode", "visit", "open_stretch", "conversation_model", "list_tasks", "add_task", "change_task", "list_memories", "forget_memory", "read_graph", "change_graph", "import_graph", "read_knowledge", "change_knowledge", "list_goals", "list_peers", "send_mail", "list_dead_mail", "resend_mail", "mute_agent", "list_daemons", "list_outbox", "acknowledge_traces", "save_cron_job", "list_cron_jobs", "change_cron_job", "list_firings", "start_workflow", "get_workflow", "save_workflow", "list_workflows", "remove_workflow", "get_workflow_run", "list_workflow_runs", "cancel_workflow", "index_documents", "search_documents", "answer_question", "list_sources", "forget_source")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SEND_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_ASK_FIELD_NUMBER: _ClassVar[int]
    LIST_ACTIVE_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    COMPACT_FIELD_NUMBER: _ClassVar[int]
    LIST_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    LIST_AGENTS_FIELD_NUMBER: _ClassVar[int]
    GET_AGENT_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    RELOAD_FIELD_NUMBER: _ClassVar[int]
    GET_STATS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_EVENTS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    GET_HISTORY_FIELD_NUMBER: _ClassVar[int]
    LIST_ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    GET_ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    EXPORT_FIELD_NUMBER: _ClassVar[int]
    IMPORT_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    GET_USAGE_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    LIST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NEW_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LIST_MODELS_FIELD_NUMBER: _ClassVar[int]
    TEST_MODEL_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    LIST_ASKS_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    DECIDE_ASK_FIELD_NUMBER: _ClassVar[int]
    LIST_RULES_FIELD_NUMBER: _ClassVar[int]
    DELETE_RULE_FIELD_NUMBER: _ClassVar[int]
    LIST_HOOKS_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    LIST_SERVER_MODELS_FIELD_NUMBER: _ClassVar[int]
    SET_SECRET_FIELD_NUMBER: _ClassVar[int]
    LIST_SECRETS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_SECRET_FIELD_NUMBER: _ClassVar[int]
    AUDIT_SECRETS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_SECRET_FIELD_NUMBER: _ClassVar[int]
    LIST_MCP_FIELD_NUMBER: _ClassVar[int]
    APPROVE_MCP_FIELD_NUMBER: _ClassVar[int]
    GET_AGENT_STATUS_FIELD_NUMBER: _ClassVar[int]
    LIST_AGENT_TOOLS_FIELD_NUMBER: _ClassVar[int]
    LIST_VOCABULARIES_FIELD_NUMBER: _ClassVar[int]
    WRITE_VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    START_RUN_FIELD_NUMBER: _ClassVar[int]
    LIST_RUNS_FIELD_NUMBER: _ClassVar[int]
    GET_RUN_FIELD_NUMBER: _ClassVar[int]
    ATTACH_RUN_FIELD_NUMBER: _ClassVar[int]
    WAIT_RUNS_FIELD_NUMBER: _ClassVar[int]
    STOP_RUN_FIELD_NUMBER: _ClassVar[int]
    GET_RUN_HISTORY_FIELD_NUMBER: _ClassVar[int]
    LIST_JOBS_FIELD_NUMBER: _ClassVar[int]
    STOP_JOB_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    FIND_RETRIED_FIELD_NUMBER: _ClassVar[int]
    LIST_TRACES_FIELD_NUMBER: _ClassVar[int]
    GET_TRACE_FIELD_NUMBER: _ClassVar[int]
    GET_TRACE_HEALTH_FIELD_NUMBER: _ClassVar[int]
    GET_PROMPT_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RUN_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    OPEN_STRETCH_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_MODEL_FIELD_NUMBER: _ClassVar[int]
    LIST_TASKS_FIELD_NUMBER: _ClassVar[int]
    ADD_TASK_FIELD_NUMBER: _ClassVar[int]
    CHANGE_TASK_FIELD_NUMBER: _ClassVar[int]
    LIST_MEMORIES_FIELD_NUMBER: _ClassVar[int]
    FORGET_MEMORY_FIELD_NUMBER: _ClassVar[int]
    READ_GRAPH_FIELD_NUMBER: _ClassVar[int]
    CHANGE_GRAPH_FIELD_NUMBER: _ClassVar[int]
    IMPORT_GRAPH_FIELD_NUMBER: _ClassVar[int]
    READ_KNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_KNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    LIST_GOALS_FIELD_NUMBER: _ClassVar[int]
    LIST_PEERS_FIELD_NUMBER: _ClassVar[int]
    SEND_MAIL_FIELD_NUMBER: _ClassVar[int]
    LIST_DEAD_MAIL_FIELD_NUMBER: _ClassVar[int]
    RESEND_MAIL_FIELD_NUMBER: _ClassVar[int]
    MUTE_AGENT_FIELD_NUMBER: _ClassVar[int]
    LIST_DAEMONS_FIELD_NUMBER: _ClassVar[int]
    LIST_OUTBOX_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_TRACES_FIELD_NUMBER: _ClassVar[int]
    SAVE_CRON_JOB_FIELD_NUMBER: _ClassVar[int]
    LIST_CRON_JOBS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_CRON_JOB_FIELD_NUMBER: _ClassVar[int]
    LIST_FIRINGS_FIELD_NUMBER: _ClassVar[int]
    START_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    GET_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    SAVE_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    LIST_WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    REMOVE_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    GET_WORKFLOW_RUN_FIELD_NUMBER: _ClassVar[int]
    LIST_WORKFLOW_RUNS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    INDEX_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_QUESTION_FIELD_NUMBER: _ClassVar[int]
    LIST_SOURCES_FIELD_NUMBER: _ClassVar[int]
    FORGET_SOURCE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    send: SendMsg
    stream: StreamMsg
    reply_to_ask: ReplyToAsk
    list_active_conversations: ListActiveConversationsMsg
    kill: KillMsg
    compact: CompactMsg
    list_conversations: ListConversationsMsg
    list_agents: ListAgentsMsg
    get_agent: GetAgentMsg
    ping: Ping
    reload: ReloadMsg
    get_stats: GetStats
    subscribe_events: SubscribeEvents
    hello: Hello
    get_history: GetHistoryMsg
    list_archives: ListArchivesMsg
    get_archive: GetArchiveMsg
    export: ExportMsg
    delete: DeleteMsg
    get_usage: GetUsageMsg
    recall: RecallMsg
    list_tokens: ListTokensMsg
    new_token: NewTokenMsg
    revoke_token: RevokeTokenMsg
    list_models: ListModelsMsg
    test_model: TestModelMsg
    backup: BackupMsg
    attach: AttachMsg
    list_asks: ListAsksMsg
    check: CheckMsg
    decide_ask: DecideAskMsg
    list_rules: ListRulesMsg
    delete_rule: DeleteRuleMsg
    list_hooks: ListHooksMsg
    trust: TrustMsg
    working_directory: WorkingDirectoryMsg
    list_server_models: ListServerModelsMsg
    set_secret: SetSecretMsg
    list_secrets: ListSecretsMsg
    remove_secret: RemoveSecretMsg
    audit_secrets: AuditSecretsMsg
    scope_secret: ScopeSecretMsg
    list_mcp: ListMcpMsg
    approve_mcp: ApproveMcpMsg
    get_agent_status: GetAgentStatusMsg
    list_agent_tools: ListAgentToolsMsg
    list_vocabularies: ListVocabulariesMsg
    write_vocabulary: WriteVocabularyMsg
    start_run: StartRunMsg
    list_runs: ListRunsMsg
    get_run: GetRunMsg
    attach_run: AttachRunMsg
    wait_runs: WaitRunsMsg
    stop_run: StopRunMsg
    get_run_history: GetRunHistoryMsg
    list_jobs: ListJobsMsg
    stop_job: StopJobMsg
    withdraw: WithdrawMsg
    find_retried: FindRetriedMsg
    list_traces: ListTracesMsg
    get_trace: GetTraceMsg
    get_trace_health: GetTraceHealthMsg
    get_prompt: GetPromptMsg
    replay_run: ReplayRunMsg
    undo: UndoMsg
    mode: ModeMsg
    visit: VisitMsg
    open_stretch: OpenStretchMsg
    conversation_model: ConversationModelMsg
    list_tasks: ListTasksMsg
    add_task: AddTaskMsg
    change_task: ChangeTaskMsg
    list_memories: ListMemoriesMsg
    forget_memory: ForgetMemoryMsg
    read_graph: ReadGraphMsg
    change_graph: ChangeGraphMsg
    import_graph: ImportGraphMsg
    read_knowledge: ReadKnowledgeMsg
    change_knowledge: ChangeKnowledgeMsg
    list_goals: ListGoalsMsg
    list_peers: ListPeersMsg
    send_mail: SendMailMsg
    list_dead_mail: ListDeadMailMsg
    resend_mail: ResendMailMsg
    mute_agent: MuteAgentMsg
    list_daemons: ListDaemonsMsg
    list_outbox: ListOutboxMsg
    acknowledge_traces: AcknowledgeTracesMsg
    save_cron_job: SaveCronJobMsg
    list_cron_jobs: ListCronJobsMsg
    change_cron_job: ChangeCronJobMsg
    list_firings: ListFiringsMsg
    start_workflow: StartWorkflowMsg
    get_workflow: GetWorkflowMsg
    save_workflow: SaveWorkflowMsg
    list_workflows: ListWorkflowsMsg
    remove_workflow: RemoveWorkflowMsg
    get_workflow_run: GetWorkflowRunMsg
    list_workflow_runs: ListWorkflowRunsMsg
    cancel_workflow: CancelWorkflowMsg
    index_documents: IndexDocumentsMsg
    search_documents: SearchDocumentsMsg
    answer_question: AnswerQuestionMsg
    list_sources: ListSourcesMsg
    forget_source: ForgetSourceMsg
    def __init__(self, request_id: _Optional[int] = ..., send: _Optional[_Union[SendMsg, _Mapping]] = ..., stream: _Optional[_Union[StreamMsg, _Mapping]] = ..., reply_to_ask: _Optional[_Union[ReplyToAsk, _Mapping]] = ..., list_active_conversations: _Optional[_Union[ListActiveConversationsMsg, _Mapping]] = ..., kill: _Optional[_Union[KillMsg, _Mapping]] = ..., compact: _Optional[_Union[CompactMsg, _Mapping]] = ..., list_conversations: _Optional[_Union[ListConversationsMsg, _Mapping]] = ..., list_agents: _Optional[_Union[ListAgentsMsg, _Mapping]] = ..., get_agent: _Optional[_Union[GetAgentMsg, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., reload: _Optional[_Union[ReloadMsg, _Mapping]] = ..., get_stats: _Optional[_Union[GetStats, _Mapping]] = ..., subscribe_events: _Optional[_Union[SubscribeEvents, _Mapping]] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., get_history: _Optional[_Union[GetHistoryMsg, _Mapping]] = ..., list_archives: _Optional[_Union[ListArchivesMsg, _Mapping]] = ..., get_archive: _Optional[_Union[GetArchiveMsg, _Mapping]] = ..., export: _Optional[_Union[ExportMsg, _Mapping]] = ..., delete: _Optional[_Union[DeleteMsg, _Mapping]] = ..., get_usage: _Optional[_Union[GetUsageMsg, _Mapping]] = ..., recall: _Optional[_Union[RecallMsg, _Mapping]] = ..., list_tokens: _Optional[_Union[ListTokensMsg, _Mapping]] = ..., new_token: _Optional[_Union[NewTokenMsg, _Mapping]] = ..., revoke_token: _Optional[_Union[RevokeTokenMsg, _Mapping]] = ..., list_models: _Optional[_Union[ListModelsMsg, _Mapping]] = ..., test_model: _Optional[_Union[TestModelMsg, _Mapping]] = ..., backup: _Optional[_Union[BackupMsg, _Mapping]] = ..., attach: _Optional[_Union[AttachMsg, _Mapping]] = ..., list_asks: _Optional[_Union[ListAsksMsg, _Mapping]] = ..., check: _Optional[_Union[CheckMsg, _Mapping]] = ..., decide_ask: _Optional[_Union[DecideAskMsg, _Mapping]] = ..., list_rules: _Optional[_Union[ListRulesMsg, _Mapping]] = ..., delete_rule: _Optional[_Union[DeleteRuleMsg, _Mapping]] = ..., list_hooks: _Optional[_Union[ListHooksMsg, _Mapping]] = ..., trust: _Optional[_Union[TrustMsg, _Mapping]] = ..., working_directory: _Optional[_Union[WorkingDirectoryMsg, _Mapping]] = ..., list_server_models: _Optional[_Union[ListServerModelsMsg, _Mapping]] = ..., set_secret: _Optional[_Union[SetSecretMsg, _Mapping]] = ..., list_secrets: _Optional[_Union[ListSecretsMsg, _Mapping]] = ..., remove_secret: _Optional[_Union[RemoveSecretMsg, _Mapping]] = ..., audit_secrets: _Optional[_Union[AuditSecretsMsg, _Mapping]] = ..., scope_secret: _Optional[_Union[ScopeSecretMsg, _Mapping]] = ..., list_mcp: _Optional[_Union[ListMcpMsg, _Mapping]] = ..., approve_mcp: _Optional[_Union[ApproveMcpMsg, _Mapping]] = ..., get_agent_status: _Optional[_Union[GetAgentStatusMsg, _Mapping]] = ..., list_agent_tools: _Optional[_Union[ListAgentToolsMsg, _Mapping]] = ..., list_vocabularies: _Optional[_Union[ListVocabulariesMsg, _Mapping]] = ..., write_vocabulary: _Optional[_Union[WriteVocabularyMsg, _Mapping]] = ..., start_run: _Optional[_Union[StartRunMsg, _Mapping]] = ..., list_runs: _Optional[_Union[ListRunsMsg, _Mapping]] = ..., get_run: _Optional[_Union[GetRunMsg, _Mapping]] = ..., attach_run: _Optional[_Union[AttachRunMsg, _Mapping]] = ..., wait_runs: _Optional[_Union[WaitRunsMsg, _Mapping]] = ..., stop_run: _Optional[_Union[StopRunMsg, _Mapping]] = ..., get_run_history: _Optional[_Union[GetRunHistoryMsg, _Mapping]] = ..., list_jobs: _Optional[_Union[ListJobsMsg, _Mapping]] = ..., stop_job: _Optional[_Union[StopJobMsg, _Mapping]] = ..., withdraw: _Optional[_Union[WithdrawMsg, _Mapping]] = ..., find_retried: _Optional[_Union[FindRetriedMsg, _Mapping]] = ..., list_traces: _Optional[_Union[ListTracesMsg, _Mapping]] = ..., get_trace: _Optional[_Union[GetTraceMsg, _Mapping]] = ..., get_trace_health: _Optional[_Union[GetTraceHealthMsg, _Mapping]] = ..., get_prompt: _Optional[_Union[GetPromptMsg, _Mapping]] = ..., replay_run: _Optional[_Union[ReplayRunMsg, _Mapping]] = ..., undo: _Optional[_Union[UndoMsg, _Mapping]] = ..., mode: _Optional[_Union[ModeMsg, _Mapping]] = ..., visit: _Optional[_Union[VisitMsg, _Mapping]] = ..., open_stretch: _Optional[_Union[OpenStretchMsg, _Mapping]] = ..., conversation_model: _Optional[_Union[ConversationModelMsg, _Mapping]] = ..., list_tasks: _Optional[_Union[ListTasksMsg, _Mapping]] = ..., add_task: _Optional[_Union[AddTaskMsg, _Mapping]] = ..., change_task: _Optional[_Union[ChangeTaskMsg, _Mapping]] = ..., list_memories: _Optional[_Union[ListMemoriesMsg, _Mapping]] = ..., forget_memory: _Optional[_Union[ForgetMemoryMsg, _Mapping]] = ..., read_graph: _Optional[_Union[ReadGraphMsg, _Mapping]] = ..., change_graph: _Optional[_Union[ChangeGraphMsg, _Mapping]] = ..., import_graph: _Optional[_Union[ImportGraphMsg, _Mapping]] = ..., read_knowledge: _Optional[_Union[ReadKnowledgeMsg, _Mapping]] = ..., change_knowledge: _Optional[_Union[ChangeKnowledgeMsg, _Mapping]] = ..., list_goals: _Optional[_Union[ListGoalsMsg, _Mapping]] = ..., list_peers: _Optional[_Union[ListPeersMsg, _Mapping]] = ..., send_mail: _Optional[_Union[SendMailMsg, _Mapping]] = ..., list_dead_mail: _Optional[_Union[ListDeadMailMsg, _Mapping]] = ..., resend_mail: _Optional[_Union[ResendMailMsg, _Mapping]] = ..., mute_agent: _Optional[_Union[MuteAgentMsg, _Mapping]] = ..., list_daemons: _Optional[_Union[ListDaemonsMsg, _Mapping]] = ..., list_outbox: _Optional[_Union[ListOutboxMsg, _Mapping]] = ..., acknowledge_traces: _Optional[_Union[AcknowledgeTracesMsg, _Mapping]] = ..., save_cron_job: _Optional[_Union[SaveCronJobMsg, _Mapping]] = ..., list_cron_jobs: _Optional[_Union[ListCronJobsMsg, _Mapping]] = ..., change_cron_job: _Optional[_Union[ChangeCronJobMsg, _Mapping]] = ..., list_firings: _Optional[_Union[ListFiringsMsg, _Mapping]] = ..., start_workflow: _Optional[_Union[StartWorkflowMsg, _Mapping]] = ..., get_workflow: _Optional[_Union[GetWorkflowMsg, _Mapping]] = ..., save_workflow: _Optional[_Union[SaveWorkflowMsg, _Mapping]] = ..., list_workflows: _Optional[_Union[ListWorkflowsMsg, _Mapping]] = ..., remove_workflow: _Optional[_Union[RemoveWorkflowMsg, _Mapping]] = ..., get_workflow_run: _Optional[_Union[GetWorkflowRunMsg, _Mapping]] = ..., list_workflow_runs: _Optional[_Union[ListWorkflowRunsMsg, _Mapping]] = ..., cancel_workflow: _Optional[_Union[CancelWorkflowMsg, _Mapping]] = ..., index_documents: _Optional[_Union[IndexDocumentsMsg, _Mapping]] = ..., search_documents: _Optional[_Union[SearchDocumentsMsg, _Mapping]] = ..., answer_question: _Optional[_Union[AnswerQuestionMsg, _Mapping]] = ..., list_sources: _Optional[_Union[ListSourcesMsg, _Mapping]] = ..., forget_source: _Optional[_Union[ForgetSourceMsg, _Mapping]] = ..., **kwargs) -> None: ...

class IndexDocumentsMsg(_message.Message):
    __slots__ = ("agent", "sender", "place", "cwd")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    place: str
    cwd: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., place: _Optional[str] = ..., cwd: _Optional[str] = ...) -> None: ...

class SearchDocumentsMsg(_message.Message):
    __slots__ = ("agent", "sender", "query", "limit", "source")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    query: str
    limit: int
    source: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., query: _Optional[str] = ..., limit: _Optional[int] = ..., source: _Optional[str] = ...) -> None: ...

class AnswerQuestionMsg(_message.Message):
    __slots__ = ("agent", "sender", "question", "source")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    question: str
    source: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., question: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class ListSourcesMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class ForgetSourceMsg(_message.Message):
    __slots__ = ("agent", "sender", "source")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    source: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., source: _Optional[str] = ...) -> None: ...

class SendMsg(_message.Message):
    __slots__ = ("agent", "content", "sender", "cwd", "guest", "client_message_id", "limits", "search_path", "tell_queued", "steer")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    GUEST_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    TELL_QUEUED_FIELD_NUMBER: _ClassVar[int]
    STEER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    sender: str
    cwd: str
    guest: str
    client_message_id: str
    limits: RunLimits
    search_path: str
    tell_queued: bool
    steer: bool
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., sender: _Optional[str] = ..., cwd: _Optional[str] = ..., guest: _Optional[str] = ..., client_message_id: _Optional[str] = ..., limits: _Optional[_Union[RunLimits, _Mapping]] = ..., search_path: _Optional[str] = ..., tell_queued: _Optional[bool] = ..., steer: _Optional[bool] = ...) -> None: ...

class StreamMsg(_message.Message):
    __slots__ = ("agent", "content", "sender", "cwd", "guest", "client_message_id", "limits", "steer", "search_path")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    GUEST_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    STEER_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    sender: str
    cwd: str
    guest: str
    client_message_id: str
    limits: RunLimits
    steer: bool
    search_path: str
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., sender: _Optional[str] = ..., cwd: _Optional[str] = ..., guest: _Optional[str] = ..., client_message_id: _Optional[str] = ..., limits: _Optional[_Union[RunLimits, _Mapping]] = ..., steer: _Optional[bool] = ..., search_path: _Optional[str] = ...) -> None: ...

class RunLimits(_message.Message):
    __slots__ = ("steps", "seconds", "tokens", "spend")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SPEND_FIELD_NUMBER: _ClassVar[int]
    steps: int
    seconds: float
    tokens: int
    spend: float
    def __init__(self, steps: _Optional[int] = ..., seconds: _Optional[float] = ..., tokens: _Optional[int] = ..., spend: _Optional[float] = ...) -> None: ...

class KillMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class CompactMsg(_message.Message):
    __slots__ = ("agent", "sender", "tell_queued")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TELL_QUEUED_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    tell_queued: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., tell_queued: _Optional[bool] = ...) -> None: ...

class OpenStretchMsg(_message.Message):
    __slots__ = ("agent", "sender", "resume", "tell_queued")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    TELL_QUEUED_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    resume: int
    tell_queued: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., resume: _Optional[int] = ..., tell_queued: _Optional[bool] = ...) -> None: ...

class ConversationModelMsg(_message.Message):
    __slots__ = ("agent", "sender", "model")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    model: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class SaveCronJobMsg(_message.Message):
    __slots__ = ("agent", "sender", "name", "schedule_type", "schedule", "prompt", "timezone", "session_mode", "missed", "deliver_to", "timeout", "cwd", "search_path", "workflow", "file")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    SESSION_MODE_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    DELIVER_TO_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    name: str
    schedule_type: str
    schedule: str
    prompt: str
    timezone: str
    session_mode: str
    missed: str
    deliver_to: _containers.RepeatedScalarFieldContainer[str]
    timeout: str
    cwd: str
    search_path: str
    workflow: str
    file: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., name: _Optional[str] = ..., schedule_type: _Optional[str] = ..., schedule: _Optional[str] = ..., prompt: _Optional[str] = ..., timezone: _Optional[str] = ..., session_mode: _Optional[str] = ..., missed: _Optional[str] = ..., deliver_to: _Optional[_Iterable[str]] = ..., timeout: _Optional[str] = ..., cwd: _Optional[str] = ..., search_path: _Optional[str] = ..., workflow: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class StartWorkflowMsg(_message.Message):
    __slots__ = ("source", "name", "file", "sender", "report_to", "cwd", "search_path", "client_message_id")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    REPORT_TO_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    source: str
    name: str
    file: str
    sender: str
    report_to: str
    cwd: str
    search_path: str
    client_message_id: str
    def __init__(self, source: _Optional[str] = ..., name: _Optional[str] = ..., file: _Optional[str] = ..., sender: _Optional[str] = ..., report_to: _Optional[str] = ..., cwd: _Optional[str] = ..., search_path: _Optional[str] = ..., client_message_id: _Optional[str] = ...) -> None: ...

class GetWorkflowMsg(_message.Message):
    __slots__ = ("source", "name", "file", "sender", "before_saving")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_SAVING_FIELD_NUMBER: _ClassVar[int]
    source: str
    name: str
    file: str
    sender: str
    before_saving: bool
    def __init__(self, source: _Optional[str] = ..., name: _Optional[str] = ..., file: _Optional[str] = ..., sender: _Optional[str] = ..., before_saving: _Optional[bool] = ...) -> None: ...

class SaveWorkflowMsg(_message.Message):
    __slots__ = ("source", "file", "name", "sender", "agent", "cwd", "search_path")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    source: str
    file: str
    name: str
    sender: str
    agent: str
    cwd: str
    search_path: str
    def __init__(self, source: _Optional[str] = ..., file: _Optional[str] = ..., name: _Optional[str] = ..., sender: _Optional[str] = ..., agent: _Optional[str] = ..., cwd: _Optional[str] = ..., search_path: _Optional[str] = ...) -> None: ...

class ListWorkflowsMsg(_message.Message):
    __slots__ = ("sender",)
    SENDER_FIELD_NUMBER: _ClassVar[int]
    sender: str
    def __init__(self, sender: _Optional[str] = ...) -> None: ...

class RemoveWorkflowMsg(_message.Message):
    __slots__ = ("name", "sender")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    sender: str
    def __init__(self, name: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class GetWorkflowRunMsg(_message.Message):
    __slots__ = ("run_id", "sender", "seconds", "seen")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    sender: str
    seconds: float
    seen: str
    def __init__(self, run_id: _Optional[str] = ..., sender: _Optional[str] = ..., seconds: _Optional[float] = ..., seen: _Optional[str] = ...) -> None: ...

class ListWorkflowRunsMsg(_message.Message):
    __slots__ = ("name", "sender", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    sender: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., sender: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class CancelWorkflowMsg(_message.Message):
    __slots__ = ("run_id", "sender")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    sender: str
    def __init__(self, run_id: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class ListCronJobsMsg(_message.Message):
    __slots__ = ("agent", "sender", "job")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    job: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., job: _Optional[str] = ...) -> None: ...

class ChangeCronJobMsg(_message.Message):
    __slots__ = ("job", "action", "agent", "sender")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    job: str
    action: str
    agent: str
    sender: str
    def __init__(self, job: _Optional[str] = ..., action: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class ListFiringsMsg(_message.Message):
    __slots__ = ("job", "agent", "sender", "limit")
    JOB_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    job: str
    agent: str
    sender: str
    limit: int
    def __init__(self, job: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListTasksMsg(_message.Message):
    __slots__ = ("agent", "sender", "status", "all")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    status: str
    all: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., status: _Optional[str] = ..., all: _Optional[bool] = ...) -> None: ...

class AddTaskMsg(_message.Message):
    __slots__ = ("agent", "sender", "title", "description")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    title: str
    description: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class ChangeTaskMsg(_message.Message):
    __slots__ = ("task_id", "status")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    status: str
    def __init__(self, task_id: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

class ListMemoriesMsg(_message.Message):
    __slots__ = ("agent", "sender", "query", "cursor")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    query: str
    cursor: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., query: _Optional[str] = ..., cursor: _Optional[str] = ...) -> None: ...

class ForgetMemoryMsg(_message.Message):
    __slots__ = ("agent", "sender", "key")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    key: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class ReadGraphMsg(_message.Message):
    __slots__ = ("sender", "view", "node", "object", "predicate", "type", "depth", "at", "all", "after")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    sender: str
    view: str
    node: str
    object: str
    predicate: str
    type: str
    depth: int
    at: str
    all: bool
    after: int
    def __init__(self, sender: _Optional[str] = ..., view: _Optional[str] = ..., node: _Optional[str] = ..., object: _Optional[str] = ..., predicate: _Optional[str] = ..., type: _Optional[str] = ..., depth: _Optional[int] = ..., at: _Optional[str] = ..., all: _Optional[bool] = ..., after: _Optional[int] = ...) -> None: ...

class ChangeGraphMsg(_message.Message):
    __slots__ = ("sender", "change", "subject", "predicate", "object", "reason", "conflict_id", "wrong", "kind", "name", "status", "exclusive", "subject_type", "object_type", "source", "valid_from", "valid_to", "confidence", "propose")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONFLICT_ID_FIELD_NUMBER: _ClassVar[int]
    WRONG_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_TYPE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_TO_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    PROPOSE_FIELD_NUMBER: _ClassVar[int]
    sender: str
    change: str
    subject: str
    predicate: str
    object: str
    reason: str
    conflict_id: str
    wrong: bool
    kind: str
    name: str
    status: str
    exclusive: bool
    subject_type: str
    object_type: str
    source: str
    valid_from: str
    valid_to: str
    confidence: float
    propose: bool
    def __init__(self, sender: _Optional[str] = ..., change: _Optional[str] = ..., subject: _Optional[str] = ..., predicate: _Optional[str] = ..., object: _Optional[str] = ..., reason: _Optional[str] = ..., conflict_id: _Optional[str] = ..., wrong: _Optional[bool] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[str] = ..., exclusive: _Optional[bool] = ..., subject_type: _Optional[str] = ..., object_type: _Optional[str] = ..., source: _Optional[str] = ..., valid_from: _Optional[str] = ..., valid_to: _Optional[str] = ..., confidence: _Optional[float] = ..., propose: _Optional[bool] = ...) -> None: ...

class ImportGraphMsg(_message.Message):
    __slots__ = ("sender", "content", "trust")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    sender: str
    content: str
    trust: bool
    def __init__(self, sender: _Optional[str] = ..., content: _Optional[str] = ..., trust: _Optional[bool] = ...) -> None: ...

class ReadKnowledgeMsg(_message.Message):
    __slots__ = ("sender", "view", "query", "category", "key", "after", "all")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    sender: str
    view: str
    query: str
    category: str
    key: str
    after: str
    all: bool
    def __init__(self, sender: _Optional[str] = ..., view: _Optional[str] = ..., query: _Optional[str] = ..., category: _Optional[str] = ..., key: _Optional[str] = ..., after: _Optional[str] = ..., all: _Optional[bool] = ...) -> None: ...

class ChangeKnowledgeMsg(_message.Message):
    __slots__ = ("sender", "change", "key", "category", "content", "tags", "source", "source_class", "learning_id", "max_confidence", "older_than_days", "dry_run", "inquiry_id")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_CLASS_FIELD_NUMBER: _ClassVar[int]
    LEARNING_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_DAYS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    INQUIRY_ID_FIELD_NUMBER: _ClassVar[int]
    sender: str
    change: str
    key: str
    category: str
    content: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    source: str
    source_class: str
    learning_id: str
    max_confidence: float
    older_than_days: int
    dry_run: bool
    inquiry_id: str
    def __init__(self, sender: _Optional[str] = ..., change: _Optional[str] = ..., key: _Optional[str] = ..., category: _Optional[str] = ..., content: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ..., source_class: _Optional[str] = ..., learning_id: _Optional[str] = ..., max_confidence: _Optional[float] = ..., older_than_days: _Optional[int] = ..., dry_run: _Optional[bool] = ..., inquiry_id: _Optional[str] = ...) -> None: ...

class ReplyToAsk(_message.Message):
    __slots__ = ("agent", "sender", "content", "client_message_id", "ask_id", "attempt")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    content: str
    client_message_id: str
    ask_id: str
    attempt: int
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., content: _Optional[str] = ..., client_message_id: _Optional[str] = ..., ask_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class ListActiveConversationsMsg(_message.Message):
    __slots__ = ("agent", "sender", "all")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    all: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., all: _Optional[bool] = ...) -> None: ...

class ListConversationsMsg(_message.Message):
    __slots__ = ("agent", "sender", "all", "limit", "cursor")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    all: bool
    limit: int
    cursor: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., all: _Optional[bool] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListAgentsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetAgentMsg(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetAgentStatusMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAgentToolsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListVocabulariesMsg(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class WriteVocabularyMsg(_message.Message):
    __slots__ = ("agent", "only_if_missing")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ONLY_IF_MISSING_FIELD_NUMBER: _ClassVar[int]
    agent: str
    only_if_missing: bool
    def __init__(self, agent: _Optional[str] = ..., only_if_missing: _Optional[bool] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStats(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SubscribeEvents(_message.Message):
    __slots__ = ("since", "without_deltas")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DELTAS_FIELD_NUMBER: _ClassVar[int]
    since: int
    without_deltas: bool
    def __init__(self, since: _Optional[int] = ..., without_deltas: _Optional[bool] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "token", "client")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    version: int
    token: str
    client: str
    def __init__(self, version: _Optional[int] = ..., token: _Optional[str] = ..., client: _Optional[str] = ...) -> None: ...

class GetHistoryMsg(_message.Message):
    __slots__ = ("agent", "sender", "all", "first_seq", "newest")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    all: bool
    first_seq: int
    newest: int
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., all: _Optional[bool] = ..., first_seq: _Optional[int] = ..., newest: _Optional[int] = ...) -> None: ...

class ListArchivesMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class GetArchiveMsg(_message.Message):
    __slots__ = ("agent", "sender", "number", "first_seq")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    number: int
    first_seq: int
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., number: _Optional[int] = ..., first_seq: _Optional[int] = ...) -> None: ...

class ExportMsg(_message.Message):
    __slots__ = ("agent", "sender", "first_seq")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    first_seq: int
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., first_seq: _Optional[int] = ...) -> None: ...

class ImportMsg(_message.Message):
    __slots__ = ("agent", "sender", "jsonl", "path", "trust")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    JSONL_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    jsonl: str
    path: str
    trust: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., jsonl: _Optional[str] = ..., path: _Optional[str] = ..., trust: _Optional[bool] = ...) -> None: ...

class DeleteMsg(_message.Message):
    __slots__ = ("agent", "sender", "confirm")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    confirm: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., confirm: _Optional[bool] = ...) -> None: ...

class GetUsageMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class RecallMsg(_message.Message):
    __slots__ = ("agent", "sender", "query", "limit")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    query: str
    limit: int
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., query: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListTokensMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NewTokenMsg(_message.Message):
    __slots__ = ("name", "senders", "may_approve")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENDERS_FIELD_NUMBER: _ClassVar[int]
    MAY_APPROVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    senders: _containers.RepeatedScalarFieldContainer[str]
    may_approve: bool
    def __init__(self, name: _Optional[str] = ..., senders: _Optional[_Iterable[str]] = ..., may_approve: _Optional[bool] = ...) -> None: ...

class RevokeTokenMsg(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListModelsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TestModelMsg(_message.Message):
    __slots__ = ("name", "candidate")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    candidate: ModelCandidate
    def __init__(self, name: _Optional[str] = ..., candidate: _Optional[_Union[ModelCandidate, _Mapping]] = ...) -> None: ...

class ModelCandidate(_message.Message):
    __slots__ = ("provider", "base_url", "model", "key", "api_key")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    BASE_URL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    provider: str
    base_url: str
    model: str
    key: str
    api_key: str
    def __init__(self, provider: _Optional[str] = ..., base_url: _Optional[str] = ..., model: _Optional[str] = ..., key: _Optional[str] = ..., api_key: _Optional[str] = ...) -> None: ...

class ListServerModelsMsg(_message.Message):
    __slots__ = ("name", "server", "variable")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    server: ModelCandidate
    variable: str
    def __init__(self, name: _Optional[str] = ..., server: _Optional[_Union[ModelCandidate, _Mapping]] = ..., variable: _Optional[str] = ...) -> None: ...

class BackupMsg(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class AttachMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class ListAsksMsg(_message.Message):
    __slots__ = ("ask_id", "pattern")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    ask_id: str
    pattern: str
    def __init__(self, ask_id: _Optional[str] = ..., pattern: _Optional[str] = ...) -> None: ...

class CheckMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DecideAskMsg(_message.Message):
    __slots__ = ("ask_id", "attempt", "decision", "whole_tool", "pattern", "reason")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    WHOLE_TOOL_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ask_id: str
    attempt: int
    decision: str
    whole_tool: bool
    pattern: str
    reason: str
    def __init__(self, ask_id: _Optional[str] = ..., attempt: _Optional[int] = ..., decision: _Optional[str] = ..., whole_tool: _Optional[bool] = ..., pattern: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListRulesMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteRuleMsg(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class ListHooksMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ModeMsg(_message.Message):
    __slots__ = ("agent", "sender", "mode", "auto_approve")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    AUTO_APPROVE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    mode: str
    auto_approve: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., mode: _Optional[str] = ..., auto_approve: _Optional[str] = ...) -> None: ...

class ListGoalsMsg(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ListPeersMsg(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class SendMailMsg(_message.Message):
    __slots__ = ("agent", "content", "sender", "goal_id", "correlation_id")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    GOAL_ID_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    sender: str
    goal_id: str
    correlation_id: str
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., sender: _Optional[str] = ..., goal_id: _Optional[str] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class ListDeadMailMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResendMailMsg(_message.Message):
    __slots__ = ("mail_id",)
    MAIL_ID_FIELD_NUMBER: _ClassVar[int]
    mail_id: str
    def __init__(self, mail_id: _Optional[str] = ...) -> None: ...

class MuteAgentMsg(_message.Message):
    __slots__ = ("agent", "muted")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    MUTED_FIELD_NUMBER: _ClassVar[int]
    agent: str
    muted: bool
    def __init__(self, agent: _Optional[str] = ..., muted: _Optional[bool] = ...) -> None: ...

class VisitMsg(_message.Message):
    __slots__ = ("agent", "sender", "away_seconds", "again")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    AWAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    away_seconds: float
    again: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., away_seconds: _Optional[float] = ..., again: _Optional[bool] = ...) -> None: ...

class ListDaemonsMsg(_message.Message):
    __slots__ = ("forget",)
    FORGET_FIELD_NUMBER: _ClassVar[int]
    forget: str
    def __init__(self, forget: _Optional[str] = ...) -> None: ...

class ListOutboxMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UndoMsg(_message.Message):
    __slots__ = ("agent", "sender", "run_id", "redo", "dry_run", "force")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REDO_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    run_id: str
    redo: bool
    dry_run: bool
    force: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., run_id: _Optional[str] = ..., redo: _Optional[bool] = ..., dry_run: _Optional[bool] = ..., force: _Optional[bool] = ...) -> None: ...

class TrustMsg(_message.Message):
    __slots__ = ("agent", "sender")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class WorkingDirectoryMsg(_message.Message):
    __slots__ = ("agent", "sender", "cwd", "instructions")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    cwd: str
    instructions: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., cwd: _Optional[str] = ..., instructions: _Optional[bool] = ...) -> None: ...

class SetSecretMsg(_message.Message):
    __slots__ = ("name", "value", "scope", "new_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NEW_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    scope: SecretScope
    new_key: bool
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., scope: _Optional[_Union[SecretScope, _Mapping]] = ..., new_key: _Optional[bool] = ...) -> None: ...

class ListSecretsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveSecretMsg(_message.Message):
    __slots__ = ("name", "owner")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class ScopeSecretMsg(_message.Message):
    __slots__ = ("name", "owner", "scope")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    scope: SecretScope
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., scope: _Optional[_Union[SecretScope, _Mapping]] = ...) -> None: ...

class SecretScope(_message.Message):
    __slots__ = ("agents", "senders", "tools", "hosts", "configuration_only")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    SENDERS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_ONLY_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedScalarFieldContainer[str]
    senders: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    configuration_only: bool
    def __init__(self, agents: _Optional[_Iterable[str]] = ..., senders: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[str]] = ..., hosts: _Optional[_Iterable[str]] = ..., configuration_only: _Optional[bool] = ...) -> None: ...

class AuditSecretsMsg(_message.Message):
    __slots__ = ("name", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListMcpMsg(_message.Message):
    __slots__ = ("name", "connect", "refresh")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONNECT_FIELD_NUMBER: _ClassVar[int]
    REFRESH_FIELD_NUMBER: _ClassVar[int]
    name: str
    connect: bool
    refresh: bool
    def __init__(self, name: _Optional[str] = ..., connect: _Optional[bool] = ..., refresh: _Optional[bool] = ...) -> None: ...

class ApproveMcpMsg(_message.Message):
    __slots__ = ("name", "digests", "deny")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    name: str
    digests: _containers.RepeatedScalarFieldContainer[str]
    deny: bool
    def __init__(self, name: _Optional[str] = ..., digests: _Optional[_Iterable[str]] = ..., deny: _Optional[bool] = ...) -> None: ...

class StartRunMsg(_message.Message):
    __slots__ = ("agent", "content", "sender", "cwd", "tools", "limits", "client_message_id", "search_path")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    sender: str
    cwd: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    limits: RunLimits
    client_message_id: str
    search_path: str
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., sender: _Optional[str] = ..., cwd: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ..., limits: _Optional[_Union[RunLimits, _Mapping]] = ..., client_message_id: _Optional[str] = ..., search_path: _Optional[str] = ...) -> None: ...

class ListRunsMsg(_message.Message):
    __slots__ = ("all", "limit", "tasks")
    ALL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    all: bool
    limit: int
    tasks: bool
    def __init__(self, all: _Optional[bool] = ..., limit: _Optional[int] = ..., tasks: _Optional[bool] = ...) -> None: ...

class GetRunMsg(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class AttachRunMsg(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class WaitRunsMsg(_message.Message):
    __slots__ = ("run_ids", "any", "seconds", "until_asked")
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    ANY_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_ASKED_FIELD_NUMBER: _ClassVar[int]
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    any: bool
    seconds: float
    until_asked: bool
    def __init__(self, run_ids: _Optional[_Iterable[str]] = ..., any: _Optional[bool] = ..., seconds: _Optional[float] = ..., until_asked: _Optional[bool] = ...) -> None: ...

class StopRunMsg(_message.Message):
    __slots__ = ("run_id", "only")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    only: bool
    def __init__(self, run_id: _Optional[str] = ..., only: _Optional[bool] = ...) -> None: ...

class FindRetriedMsg(_message.Message):
    __slots__ = ("agent", "sender", "prefix", "client_message_id")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    CLIENT_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    prefix: str
    client_message_id: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., prefix: _Optional[str] = ..., client_message_id: _Optional[str] = ...) -> None: ...

class WithdrawMsg(_message.Message):
    __slots__ = ("agent", "sender", "run_id")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    run_id: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class ListJobsMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopJobMsg(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetRunHistoryMsg(_message.Message):
    __slots__ = ("run_id", "first_seq", "newest")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    first_seq: int
    newest: int
    def __init__(self, run_id: _Optional[str] = ..., first_seq: _Optional[int] = ..., newest: _Optional[int] = ...) -> None: ...

class ListTracesMsg(_message.Message):
    __slots__ = ("limit", "failed")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    limit: int
    failed: bool
    def __init__(self, limit: _Optional[int] = ..., failed: _Optional[bool] = ...) -> None: ...

class GetTraceMsg(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class GetPromptMsg(_message.Message):
    __slots__ = ("run_id", "step")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class ReplayRunMsg(_message.Message):
    __slots__ = ("run_id", "model")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    model: str
    def __init__(self, run_id: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class GetTraceHealthMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AcknowledgeTracesMsg(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("request_id", "error", "pong", "response", "stream", "active_conversations", "compact", "conversation_list", "agent_info", "agent_list", "stats", "agent_event", "welcome", "history", "archive_list", "archive", "exported", "imported", "deleted", "usage", "recalled", "token_list", "token_created", "token_revoked", "model_list", "model_tested", "server_models", "backed_up", "ask_list", "checked", "reloaded", "ask_decided", "rule_list", "hook_list", "trusted", "working_directory", "secret_set", "secret_list", "secret_audit", "mcp_list", "mcp_approved", "agent_status", "agent_tool_list", "vocabularies", "run", "run_list", "job_list", "withdrawn", "retried", "trace_list", "trace", "trace_health", "prompt", "replayed", "undone", "mode", "stretch_opened", "conversation_model", "task_list", "memory_list", "graph_page", "graph_changed", "graph_imported", "knowledge_page", "knowledge_changed", "goals", "peers", "mail_report", "dead_mail", "digest", "mail_resent", "agent_muted", "daemons", "outbox", "cron_jobs", "firings", "workflow", "workflows", "workflow_run", "workflow_runs", "index_progress", "documents_indexed", "passages", "document_answer", "sources")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    COMPACT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_LIST_FIELD_NUMBER: _ClassVar[int]
    AGENT_INFO_FIELD_NUMBER: _ClassVar[int]
    AGENT_LIST_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    AGENT_EVENT_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_LIST_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    EXPORTED_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    RECALLED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LIST_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CREATED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_REVOKED_FIELD_NUMBER: _ClassVar[int]
    MODEL_LIST_FIELD_NUMBER: _ClassVar[int]
    MODEL_TESTED_FIELD_NUMBER: _ClassVar[int]
    SERVER_MODELS_FIELD_NUMBER: _ClassVar[int]
    BACKED_UP_FIELD_NUMBER: _ClassVar[int]
    ASK_LIST_FIELD_NUMBER: _ClassVar[int]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    RELOADED_FIELD_NUMBER: _ClassVar[int]
    ASK_DECIDED_FIELD_NUMBER: _ClassVar[int]
    RULE_LIST_FIELD_NUMBER: _ClassVar[int]
    HOOK_LIST_FIELD_NUMBER: _ClassVar[int]
    TRUSTED_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    SECRET_SET_FIELD_NUMBER: _ClassVar[int]
    SECRET_LIST_FIELD_NUMBER: _ClassVar[int]
    SECRET_AUDIT_FIELD_NUMBER: _ClassVar[int]
    MCP_LIST_FIELD_NUMBER: _ClassVar[int]
    MCP_APPROVED_FIELD_NUMBER: _ClassVar[int]
    AGENT_STATUS_FIELD_NUMBER: _ClassVar[int]
    AGENT_TOOL_LIST_FIELD_NUMBER: _ClassVar[int]
    VOCABULARIES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RUN_LIST_FIELD_NUMBER: _ClassVar[int]
    JOB_LIST_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    TRACE_LIST_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    TRACE_HEALTH_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    STRETCH_OPENED_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_MODEL_FIELD_NUMBER: _ClassVar[int]
    TASK_LIST_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIST_FIELD_NUMBER: _ClassVar[int]
    GRAPH_PAGE_FIELD_NUMBER: _ClassVar[int]
    GRAPH_CHANGED_FIELD_NUMBER: _ClassVar[int]
    GRAPH_IMPORTED_FIELD_NUMBER: _ClassVar[int]
    KNOWLEDGE_PAGE_FIELD_NUMBER: _ClassVar[int]
    KNOWLEDGE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    GOALS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    MAIL_REPORT_FIELD_NUMBER: _ClassVar[int]
    DEAD_MAIL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MAIL_RESENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_MUTED_FIELD_NUMBER: _ClassVar[int]
    DAEMONS_FIELD_NUMBER: _ClassVar[int]
    OUTBOX_FIELD_NUMBER: _ClassVar[int]
    CRON_JOBS_FIELD_NUMBER: _ClassVar[int]
    FIRINGS_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_RUN_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_RUNS_FIELD_NUMBER: _ClassVar[int]
    INDEX_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_INDEXED_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ANSWER_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    error: ErrorMsg
    pong: Pong
    response: SendResponse
    stream: StreamEvent
    active_conversations: ActiveConversationList
    compact: CompactResponse
    conversation_list: ConversationList
    agent_info: AgentInfo
    agent_list: AgentList
    stats: DaemonStats
    agent_event: AgentEventMsg
    welcome: Welcome
    history: History
    archive_list: ArchiveList
    archive: ArchiveInfo
    exported: Exported
    imported: Imported
    deleted: Deleted
    usage: UsageList
    recalled: Recalled
    token_list: TokenList
    token_created: TokenCreated
    token_revoked: TokenRevoked
    model_list: ModelList
    model_tested: ModelTested
    server_models: ServerModelList
    backed_up: BackedUp
    ask_list: AskList
    checked: Checked
    reloaded: Reloaded
    ask_decided: AskDecided
    rule_list: RuleList
    hook_list: HookList
    trusted: Trusted
    working_directory: WorkingDirectory
    secret_set: SecretSet
    secret_list: SecretList
    secret_audit: SecretAudit
    mcp_list: McpList
    mcp_approved: McpApproved
    agent_status: AgentStatus
    agent_tool_list: AgentToolList
    vocabularies: VocabularyList
    run: RunInfo
    run_list: RunList
    job_list: JobList
    withdrawn: Withdrawn
    retried: Retried
    trace_list: TraceList
    trace: TraceInfo
    trace_health: TraceHealth
    prompt: PromptInfo
    replayed: Replayed
    undone: Undone
    mode: ModeInfo
    stretch_opened: StretchOpened
    conversation_model: ConversationModel
    task_list: TaskList
    memory_list: MemoryList
    graph_page: GraphPage
    graph_changed: GraphChanged
    graph_imported: GraphImported
    knowledge_page: KnowledgePage
    knowledge_changed: KnowledgeChanged
    goals: GoalList
    peers: PeerList
    mail_report: MailReport
    dead_mail: DeadMailList
    digest: DigestInfo
    mail_resent: MailInfo
    agent_muted: AgentMuted
    daemons: DaemonList
    outbox: OutboxList
    cron_jobs: CronJobList
    firings: FiringList
    workflow: WorkflowInfo
    workflows: WorkflowList
    workflow_run: WorkflowRunInfo
    workflow_runs: WorkflowRunList
    index_progress: IndexProgress
    documents_indexed: DocumentsIndexed
    passages: PassageList
    document_answer: DocumentAnswer
    sources: SourceList
    def __init__(self, request_id: _Optional[int] = ..., error: _Optional[_Union[ErrorMsg, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., response: _Optional[_Union[SendResponse, _Mapping]] = ..., stream: _Optional[_Union[StreamEvent, _Mapping]] = ..., active_conversations: _Optional[_Union[ActiveConversationList, _Mapping]] = ..., compact: _Optional[_Union[CompactResponse, _Mapping]] = ..., conversation_list: _Optional[_Union[ConversationList, _Mapping]] = ..., agent_info: _Optional[_Union[AgentInfo, _Mapping]] = ..., agent_list: _Optional[_Union[AgentList, _Mapping]] = ..., stats: _Optional[_Union[DaemonStats, _Mapping]] = ..., agent_event: _Optional[_Union[AgentEventMsg, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., history: _Optional[_Union[History, _Mapping]] = ..., archive_list: _Optional[_Union[ArchiveList, _Mapping]] = ..., archive: _Optional[_Union[ArchiveInfo, _Mapping]] = ..., exported: _Optional[_Union[Exported, _Mapping]] = ..., imported: _Optional[_Union[Imported, _Mapping]] = ..., deleted: _Optional[_Union[Deleted, _Mapping]] = ..., usage: _Optional[_Union[UsageList, _Mapping]] = ..., recalled: _Optional[_Union[Recalled, _Mapping]] = ..., token_list: _Optional[_Union[TokenList, _Mapping]] = ..., token_created: _Optional[_Union[TokenCreated, _Mapping]] = ..., token_revoked: _Optional[_Union[TokenRevoked, _Mapping]] = ..., model_list: _Optional[_Union[ModelList, _Mapping]] = ..., model_tested: _Optional[_Union[ModelTested, _Mapping]] = ..., server_models: _Optional[_Union[ServerModelList, _Mapping]] = ..., backed_up: _Optional[_Union[BackedUp, _Mapping]] = ..., ask_list: _Optional[_Union[AskList, _Mapping]] = ..., checked: _Optional[_Union[Checked, _Mapping]] = ..., reloaded: _Optional[_Union[Reloaded, _Mapping]] = ..., ask_decided: _Optional[_Union[AskDecided, _Mapping]] = ..., rule_list: _Optional[_Union[RuleList, _Mapping]] = ..., hook_list: _Optional[_Union[HookList, _Mapping]] = ..., trusted: _Optional[_Union[Trusted, _Mapping]] = ..., working_directory: _Optional[_Union[WorkingDirectory, _Mapping]] = ..., secret_set: _Optional[_Union[SecretSet, _Mapping]] = ..., secret_list: _Optional[_Union[SecretList, _Mapping]] = ..., secret_audit: _Optional[_Union[SecretAudit, _Mapping]] = ..., mcp_list: _Optional[_Union[McpList, _Mapping]] = ..., mcp_approved: _Optional[_Union[McpApproved, _Mapping]] = ..., agent_status: _Optional[_Union[AgentStatus, _Mapping]] = ..., agent_tool_list: _Optional[_Union[AgentToolList, _Mapping]] = ..., vocabularies: _Optional[_Union[VocabularyList, _Mapping]] = ..., run: _Optional[_Union[RunInfo, _Mapping]] = ..., run_list: _Optional[_Union[RunList, _Mapping]] = ..., job_list: _Optional[_Union[JobList, _Mapping]] = ..., withdrawn: _Optional[_Union[Withdrawn, _Mapping]] = ..., retried: _Optional[_Union[Retried, _Mapping]] = ..., trace_list: _Optional[_Union[TraceList, _Mapping]] = ..., trace: _Optional[_Union[TraceInfo, _Mapping]] = ..., trace_health: _Optional[_Union[TraceHealth, _Mapping]] = ..., prompt: _Optional[_Union[PromptInfo, _Mapping]] = ..., replayed: _Optional[_Union[Replayed, _Mapping]] = ..., undone: _Optional[_Union[Undone, _Mapping]] = ..., mode: _Optional[_Union[ModeInfo, _Mapping]] = ..., stretch_opened: _Optional[_Union[StretchOpened, _Mapping]] = ..., conversation_model: _Optional[_Union[ConversationModel, _Mapping]] = ..., task_list: _Optional[_Union[TaskList, _Mapping]] = ..., memory_list: _Optional[_Union[MemoryList, _Mapping]] = ..., graph_page: _Optional[_Union[GraphPage, _Mapping]] = ..., graph_changed: _Optional[_Union[GraphChanged, _Mapping]] = ..., graph_imported: _Optional[_Union[GraphImported, _Mapping]] = ..., knowledge_page: _Optional[_Union[KnowledgePage, _Mapping]] = ..., knowledge_changed: _Optional[_Union[KnowledgeChanged, _Mapping]] = ..., goals: _Optional[_Union[GoalList, _Mapping]] = ..., peers: _Optional[_Union[PeerList, _Mapping]] = ..., mail_report: _Optional[_Union[MailReport, _Mapping]] = ..., dead_mail: _Optional[_Union[DeadMailList, _Mapping]] = ..., digest: _Optional[_Union[DigestInfo, _Mapping]] = ..., mail_resent: _Optional[_Union[MailInfo, _Mapping]] = ..., agent_muted: _Optional[_Union[AgentMuted, _Mapping]] = ..., daemons: _Optional[_Union[DaemonList, _Mapping]] = ..., outbox: _Optional[_Union[OutboxList, _Mapping]] = ..., cron_jobs: _Optional[_Union[CronJobList, _Mapping]] = ..., firings: _Optional[_Union[FiringList, _Mapping]] = ..., workflow: _Optional[_Union[WorkflowInfo, _Mapping]] = ..., workflows: _Optional[_Union[WorkflowList, _Mapping]] = ..., workflow_run: _Optional[_Union[WorkflowRunInfo, _Mapping]] = ..., workflow_runs: _Optional[_Union[WorkflowRunList, _Mapping]] = ..., index_progress: _Optional[_Union[IndexProgress, _Mapping]] = ..., documents_indexed: _Optional[_Union[DocumentsIndexed, _Mapping]] = ..., passages: _Optional[_Union[PassageList, _Mapping]] = ..., document_answer: _Optional[_Union[DocumentAnswer, _Mapping]] = ..., sources: _Optional[_Union[SourceList, _Mapping]] = ...) -> None: ...

class IndexProgress(_message.Message):
    __slots__ = ("done", "total")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    done: int
    total: int
    def __init__(self, done: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class DocumentRemark(_message.Message):
    __slots__ = ("document", "reason")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    document: str
    reason: str
    def __init__(self, document: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DocumentsIndexed(_message.Message):
    __slots__ = ("source", "added", "changed", "removed", "unchanged", "refused", "notes", "embedded_anew")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    EMBEDDED_ANEW_FIELD_NUMBER: _ClassVar[int]
    source: SourceInfo
    added: int
    changed: int
    removed: int
    unchanged: int
    refused: _containers.RepeatedCompositeFieldContainer[DocumentRemark]
    notes: _containers.RepeatedCompositeFieldContainer[DocumentRemark]
    embedded_anew: int
    def __init__(self, source: _Optional[_Union[SourceInfo, _Mapping]] = ..., added: _Optional[int] = ..., changed: _Optional[int] = ..., removed: _Optional[int] = ..., unchanged: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[DocumentRemark, _Mapping]]] = ..., notes: _Optional[_Iterable[_Union[DocumentRemark, _Mapping]]] = ..., embedded_anew: _Optional[int] = ...) -> None: ...

class SourceInfo(_message.Message):
    __slots__ = ("number", "kind", "place", "documents", "passages", "refused", "complete", "added_at", "embeddings")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ADDED_AT_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: str
    place: str
    documents: int
    passages: int
    refused: int
    complete: bool
    added_at: float
    embeddings: str
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[str] = ..., place: _Optional[str] = ..., documents: _Optional[int] = ..., passages: _Optional[int] = ..., refused: _Optional[int] = ..., complete: _Optional[bool] = ..., added_at: _Optional[float] = ..., embeddings: _Optional[str] = ...) -> None: ...

class SourceList(_message.Message):
    __slots__ = ("sources", "embeddings")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedCompositeFieldContainer[SourceInfo]
    embeddings: str
    def __init__(self, sources: _Optional[_Iterable[_Union[SourceInfo, _Mapping]]] = ..., embeddings: _Optional[str] = ...) -> None: ...

class PassageInfo(_message.Message):
    __slots__ = ("citation", "title", "heading", "text", "score", "source", "number", "supported")
    CITATION_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    HEADING_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SUPPORTED_FIELD_NUMBER: _ClassVar[int]
    citation: str
    title: str
    heading: str
    text: str
    score: float
    source: int
    number: int
    supported: bool
    def __init__(self, citation: _Optional[str] = ..., title: _Optional[str] = ..., heading: _Optional[str] = ..., text: _Optional[str] = ..., score: _Optional[float] = ..., source: _Optional[int] = ..., number: _Optional[int] = ..., supported: _Optional[bool] = ...) -> None: ...

class PassageList(_message.Message):
    __slots__ = ("passages", "notes")
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    passages: _containers.RepeatedCompositeFieldContainer[PassageInfo]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, passages: _Optional[_Iterable[_Union[PassageInfo, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class DocumentAnswer(_message.Message):
    __slots__ = ("found", "answer", "grounded", "citations", "message", "notes")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    GROUNDED_FIELD_NUMBER: _ClassVar[int]
    CITATIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    found: bool
    answer: str
    grounded: bool
    citations: _containers.RepeatedCompositeFieldContainer[PassageInfo]
    message: str
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, found: _Optional[bool] = ..., answer: _Optional[str] = ..., grounded: _Optional[bool] = ..., citations: _Optional[_Iterable[_Union[PassageInfo, _Mapping]]] = ..., message: _Optional[str] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class ErrorMsg(_message.Message):
    __slots__ = ("code", "message", "type", "fix")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    type: str
    fix: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., type: _Optional[str] = ..., fix: _Optional[str] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("stopped", "seq", "commands")
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    stopped: bool
    seq: int
    commands: int
    def __init__(self, stopped: _Optional[bool] = ..., seq: _Optional[int] = ..., commands: _Optional[int] = ...) -> None: ...

class TokenUsage(_message.Message):
    __slots__ = ("prompt", "completion", "total", "cache_hit", "cache_miss", "reasoning")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_FIELD_NUMBER: _ClassVar[int]
    CACHE_MISS_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    prompt: int
    completion: int
    total: int
    cache_hit: int
    cache_miss: int
    reasoning: int
    def __init__(self, prompt: _Optional[int] = ..., completion: _Optional[int] = ..., total: _Optional[int] = ..., cache_hit: _Optional[int] = ..., cache_miss: _Optional[int] = ..., reasoning: _Optional[int] = ...) -> None: ...

class SendResponse(_message.Message):
    __slots__ = ("agent", "content", "provider", "model", "usage", "outcome", "error", "cost", "limit", "steered_into", "messages")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STEERED_INTO_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    agent: str
    content: str
    provider: str
    model: str
    usage: TokenUsage
    outcome: str
    error: str
    cost: float
    limit: str
    steered_into: str
    messages: _containers.RepeatedCompositeFieldContainer[UserMessageInfo]
    def __init__(self, agent: _Optional[str] = ..., content: _Optional[str] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., outcome: _Optional[str] = ..., error: _Optional[str] = ..., cost: _Optional[float] = ..., limit: _Optional[str] = ..., steered_into: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[UserMessageInfo, _Mapping]]] = ...) -> None: ...

class StreamEvent(_message.Message):
    __slots__ = ("start", "chunk", "thinking", "tool_start", "tool_result", "tools_complete", "end", "ask_user", "text_start", "text_end", "thinking_start", "thinking_end", "queued", "retrying", "compacted", "ask_closed", "discarded", "approval_opened", "approval_closed", "tool_executed", "withdrawn", "steered", "compacting", "mode_changed", "preparing", "mail_read", "user_message", "private_text", "spawned", "blocked", "unblocked", "command_started", "command_ended", "reloaded", "mail_sent", "mail_delivered", "mail_evicted", "mail_dropped", "bridge_refused")
    START_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    TOOL_START_FIELD_NUMBER: _ClassVar[int]
    TOOL_RESULT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ASK_USER_FIELD_NUMBER: _ClassVar[int]
    TEXT_START_FIELD_NUMBER: _ClassVar[int]
    TEXT_END_FIELD_NUMBER: _ClassVar[int]
    THINKING_START_FIELD_NUMBER: _ClassVar[int]
    THINKING_END_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RETRYING_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    ASK_CLOSED_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_OPENED_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_CLOSED_FIELD_NUMBER: _ClassVar[int]
    TOOL_EXECUTED_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    STEERED_FIELD_NUMBER: _ClassVar[int]
    COMPACTING_FIELD_NUMBER: _ClassVar[int]
    MODE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    PREPARING_FIELD_NUMBER: _ClassVar[int]
    MAIL_READ_FIELD_NUMBER: _ClassVar[int]
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_TEXT_FIELD_NUMBER: _ClassVar[int]
    SPAWNED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    UNBLOCKED_FIELD_NUMBER: _ClassVar[int]
    COMMAND_STARTED_FIELD_NUMBER: _ClassVar[int]
    COMMAND_ENDED_FIELD_NUMBER: _ClassVar[int]
    RELOADED_FIELD_NUMBER: _ClassVar[int]
    MAIL_SENT_FIELD_NUMBER: _ClassVar[int]
    MAIL_DELIVERED_FIELD_NUMBER: _ClassVar[int]
    MAIL_EVICTED_FIELD_NUMBER: _ClassVar[int]
    MAIL_DROPPED_FIELD_NUMBER: _ClassVar[int]
    BRIDGE_REFUSED_FIELD_NUMBER: _ClassVar[int]
    start: StreamStart
    chunk: StreamChunk
    thinking: StreamThinking
    tool_start: ToolStartEvent
    tool_result: ToolResultEvent
    tools_complete: ToolsCompleteEvent
    end: StreamEnd
    ask_user: AskUserEvent
    text_start: TextStartEvent
    text_end: TextEndEvent
    thinking_start: ThinkingStartEvent
    thinking_end: ThinkingEndEvent
    queued: QueuedEvent
    retrying: RetryingEvent
    compacted: CompactedEvent
    ask_closed: AskClosedEvent
    discarded: DiscardedEvent
    approval_opened: ApprovalEvent
    approval_closed: ApprovalClosedEvent
    tool_executed: ToolExecutedEvent
    withdrawn: WithdrawnEvent
    steered: SteeredEvent
    compacting: CompactingEvent
    mode_changed: ModeEvent
    preparing: PreparingEvent
    mail_read: MailInfo
    user_message: UserMessageInfo
    private_text: StreamChunk
    spawned: SpawnedEvent
    blocked: BlockedEvent
    unblocked: UnblockedEvent
    command_started: CommandStartedEvent
    command_ended: CommandEndedEvent
    reloaded: ReloadedEvent
    mail_sent: MailInfo
    mail_delivered: MailInfo
    mail_evicted: MailInfo
    mail_dropped: MailInfo
    bridge_refused: MailInfo
    def __init__(self, start: _Optional[_Union[StreamStart, _Mapping]] = ..., chunk: _Optional[_Union[StreamChunk, _Mapping]] = ..., thinking: _Optional[_Union[StreamThinking, _Mapping]] = ..., tool_start: _Optional[_Union[ToolStartEvent, _Mapping]] = ..., tool_result: _Optional[_Union[ToolResultEvent, _Mapping]] = ..., tools_complete: _Optional[_Union[ToolsCompleteEvent, _Mapping]] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ..., ask_user: _Optional[_Union[AskUserEvent, _Mapping]] = ..., text_start: _Optional[_Union[TextStartEvent, _Mapping]] = ..., text_end: _Optional[_Union[TextEndEvent, _Mapping]] = ..., thinking_start: _Optional[_Union[ThinkingStartEvent, _Mapping]] = ..., thinking_end: _Optional[_Union[ThinkingEndEvent, _Mapping]] = ..., queued: _Optional[_Union[QueuedEvent, _Mapping]] = ..., retrying: _Optional[_Union[RetryingEvent, _Mapping]] = ..., compacted: _Optional[_Union[CompactedEvent, _Mapping]] = ..., ask_closed: _Optional[_Union[AskClosedEvent, _Mapping]] = ..., discarded: _Optional[_Union[DiscardedEvent, _Mapping]] = ..., approval_opened: _Optional[_Union[ApprovalEvent, _Mapping]] = ..., approval_closed: _Optional[_Union[ApprovalClosedEvent, _Mapping]] = ..., tool_executed: _Optional[_Union[ToolExecutedEvent, _Mapping]] = ..., withdrawn: _Optional[_Union[WithdrawnEvent, _Mapping]] = ..., steered: _Optional[_Union[SteeredEvent, _Mapping]] = ..., compacting: _Optional[_Union[CompactingEvent, _Mapping]] = ..., mode_changed: _Optional[_Union[ModeEvent, _Mapping]] = ..., preparing: _Optional[_Union[PreparingEvent, _Mapping]] = ..., mail_read: _Optional[_Union[MailInfo, _Mapping]] = ..., user_message: _Optional[_Union[UserMessageInfo, _Mapping]] = ..., private_text: _Optional[_Union[StreamChunk, _Mapping]] = ..., spawned: _Optional[_Union[SpawnedEvent, _Mapping]] = ..., blocked: _Optional[_Union[BlockedEvent, _Mapping]] = ..., unblocked: _Optional[_Union[UnblockedEvent, _Mapping]] = ..., command_started: _Optional[_Union[CommandStartedEvent, _Mapping]] = ..., command_ended: _Optional[_Union[CommandEndedEvent, _Mapping]] = ..., reloaded: _Optional[_Union[ReloadedEvent, _Mapping]] = ..., mail_sent: _Optional[_Union[MailInfo, _Mapping]] = ..., mail_delivered: _Optional[_Union[MailInfo, _Mapping]] = ..., mail_evicted: _Optional[_Union[MailInfo, _Mapping]] = ..., mail_dropped: _Optional[_Union[MailInfo, _Mapping]] = ..., bridge_refused: _Optional[_Union[MailInfo, _Mapping]] = ...) -> None: ...

class StreamStart(_message.Message):
    __slots__ = ("agent", "user_seq", "run_id")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    USER_SEQ_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    user_seq: int
    run_id: str
    def __init__(self, agent: _Optional[str] = ..., user_seq: _Optional[int] = ..., run_id: _Optional[str] = ...) -> None: ...

class StreamChunk(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: str
    def __init__(self, content: _Optional[str] = ...) -> None: ...

class StreamThinking(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: str
    def __init__(self, content: _Optional[str] = ...) -> None: ...

class ToolCallInfo(_message.Message):
    __slots__ = ("name", "arguments", "call_id", "line")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments: str
    call_id: str
    line: str
    def __init__(self, name: _Optional[str] = ..., arguments: _Optional[str] = ..., call_id: _Optional[str] = ..., line: _Optional[str] = ...) -> None: ...

class ToolStartEvent(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[ToolCallInfo]
    def __init__(self, calls: _Optional[_Iterable[_Union[ToolCallInfo, _Mapping]]] = ...) -> None: ...

class ToolResultEvent(_message.Message):
    __slots__ = ("call_id", "output", "duration_ms", "is_error", "name")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    output: str
    duration_ms: int
    is_error: bool
    name: str
    def __init__(self, call_id: _Optional[str] = ..., output: _Optional[str] = ..., duration_ms: _Optional[int] = ..., is_error: _Optional[bool] = ..., name: _Optional[str] = ...) -> None: ...

class ToolsCompleteEvent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StreamEnd(_message.Message):
    __slots__ = ("agent", "error", "provider", "model", "usage", "outcome", "limit", "cost", "steps")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    error: str
    provider: str
    model: str
    usage: TokenUsage
    outcome: str
    limit: str
    cost: float
    steps: int
    def __init__(self, agent: _Optional[str] = ..., error: _Optional[str] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., outcome: _Optional[str] = ..., limit: _Optional[str] = ..., cost: _Optional[float] = ..., steps: _Optional[int] = ...) -> None: ...

class AskOption(_message.Message):
    __slots__ = ("label", "description")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    label: str
    description: str
    def __init__(self, label: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class AskQuestion(_message.Message):
    __slots__ = ("question", "header", "options", "multi_select")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MULTI_SELECT_FIELD_NUMBER: _ClassVar[int]
    question: str
    header: str
    options: _containers.RepeatedCompositeFieldContainer[AskOption]
    multi_select: bool
    def __init__(self, question: _Optional[str] = ..., header: _Optional[str] = ..., options: _Optional[_Iterable[_Union[AskOption, _Mapping]]] = ..., multi_select: _Optional[bool] = ...) -> None: ...

class AskUserEvent(_message.Message):
    __slots__ = ("questions", "ask_id", "expires_at", "by", "attempt")
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    questions: _containers.RepeatedCompositeFieldContainer[AskQuestion]
    ask_id: str
    expires_at: float
    by: Asker
    attempt: int
    def __init__(self, questions: _Optional[_Iterable[_Union[AskQuestion, _Mapping]]] = ..., ask_id: _Optional[str] = ..., expires_at: _Optional[float] = ..., by: _Optional[_Union[Asker, _Mapping]] = ..., attempt: _Optional[int] = ...) -> None: ...

class Asker(_message.Message):
    __slots__ = ("agent", "run_id", "spawn_reason", "task")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SPAWN_REASON_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    agent: str
    run_id: str
    spawn_reason: str
    task: str
    def __init__(self, agent: _Optional[str] = ..., run_id: _Optional[str] = ..., spawn_reason: _Optional[str] = ..., task: _Optional[str] = ...) -> None: ...

class UserMessageInfo(_message.Message):
    __slots__ = ("content", "status", "attachments", "call_id")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    content: str
    status: str
    attachments: _containers.RepeatedCompositeFieldContainer[AttachmentInfo]
    call_id: str
    def __init__(self, content: _Optional[str] = ..., status: _Optional[str] = ..., attachments: _Optional[_Iterable[_Union[AttachmentInfo, _Mapping]]] = ..., call_id: _Optional[str] = ...) -> None: ...

class AttachmentInfo(_message.Message):
    __slots__ = ("path", "size")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class TextStartEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class TextEndEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ThinkingStartEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class ThinkingEndEvent(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    def __init__(self, agent: _Optional[str] = ...) -> None: ...

class QueuedEvent(_message.Message):
    __slots__ = ("position", "ask_id", "ask_kind", "run_id")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ASK_KIND_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    position: int
    ask_id: str
    ask_kind: str
    run_id: str
    def __init__(self, position: _Optional[int] = ..., ask_id: _Optional[str] = ..., ask_kind: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class WithdrawnEvent(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: str
    def __init__(self, content: _Optional[str] = ...) -> None: ...

class SteeredEvent(_message.Message):
    __slots__ = ("content", "user_seq", "run_id", "into")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    USER_SEQ_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    INTO_FIELD_NUMBER: _ClassVar[int]
    content: str
    user_seq: int
    run_id: str
    into: str
    def __init__(self, content: _Optional[str] = ..., user_seq: _Optional[int] = ..., run_id: _Optional[str] = ..., into: _Optional[str] = ...) -> None: ...

class CompactingEvent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MailInfo(_message.Message):
    __slots__ = ("mail_id", "from_agent", "from_goal", "to_agent", "goal_id", "body", "sent_at", "correlation_id", "reason")
    MAIL_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_AGENT_FIELD_NUMBER: _ClassVar[int]
    FROM_GOAL_FIELD_NUMBER: _ClassVar[int]
    TO_AGENT_FIELD_NUMBER: _ClassVar[int]
    GOAL_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    mail_id: str
    from_agent: str
    from_goal: str
    to_agent: str
    goal_id: str
    body: str
    sent_at: float
    correlation_id: str
    reason: str
    def __init__(self, mail_id: _Optional[str] = ..., from_agent: _Optional[str] = ..., from_goal: _Optional[str] = ..., to_agent: _Optional[str] = ..., goal_id: _Optional[str] = ..., body: _Optional[str] = ..., sent_at: _Optional[float] = ..., correlation_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RetryingEvent(_message.Message):
    __slots__ = ("attempt", "delay_ms", "reason")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    delay_ms: int
    reason: str
    def __init__(self, attempt: _Optional[int] = ..., delay_ms: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ModeEvent(_message.Message):
    __slots__ = ("mode", "by", "auto_approve")
    MODE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    AUTO_APPROVE_FIELD_NUMBER: _ClassVar[int]
    mode: str
    by: str
    auto_approve: str
    def __init__(self, mode: _Optional[str] = ..., by: _Optional[str] = ..., auto_approve: _Optional[str] = ...) -> None: ...

class ReloadedEvent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PreparingEvent(_message.Message):
    __slots__ = ("stage", "percent", "previous_ms")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    percent: int
    previous_ms: int
    def __init__(self, stage: _Optional[str] = ..., percent: _Optional[int] = ..., previous_ms: _Optional[int] = ...) -> None: ...

class CompactedEvent(_message.Message):
    __slots__ = ("number", "title")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    number: int
    title: str
    def __init__(self, number: _Optional[int] = ..., title: _Optional[str] = ...) -> None: ...

class AskClosedEvent(_message.Message):
    __slots__ = ("ask_id", "answered", "attempt")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ask_id: str
    answered: bool
    attempt: int
    def __init__(self, ask_id: _Optional[str] = ..., answered: _Optional[bool] = ..., attempt: _Optional[int] = ...) -> None: ...

class ToolExecutedEvent(_message.Message):
    __slots__ = ("call_id", "name", "ok", "seconds")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    ok: bool
    seconds: float
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., ok: _Optional[bool] = ..., seconds: _Optional[float] = ...) -> None: ...

class ApprovalEvent(_message.Message):
    __slots__ = ("ask_id", "attempt", "tool", "line", "preview", "reason", "rule", "expires_at", "whole_rule", "by", "kind", "patterns")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    WHOLE_RULE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    ask_id: str
    attempt: int
    tool: str
    line: str
    preview: str
    reason: str
    rule: str
    expires_at: float
    whole_rule: str
    by: Asker
    kind: str
    patterns: _containers.RepeatedCompositeFieldContainer[PatternInfo]
    def __init__(self, ask_id: _Optional[str] = ..., attempt: _Optional[int] = ..., tool: _Optional[str] = ..., line: _Optional[str] = ..., preview: _Optional[str] = ..., reason: _Optional[str] = ..., rule: _Optional[str] = ..., expires_at: _Optional[float] = ..., whole_rule: _Optional[str] = ..., by: _Optional[_Union[Asker, _Mapping]] = ..., kind: _Optional[str] = ..., patterns: _Optional[_Iterable[_Union[PatternInfo, _Mapping]]] = ...) -> None: ...

class PatternInfo(_message.Message):
    __slots__ = ("text", "rule")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    text: str
    rule: str
    def __init__(self, text: _Optional[str] = ..., rule: _Optional[str] = ...) -> None: ...

class ApprovalClosedEvent(_message.Message):
    __slots__ = ("ask_id", "state", "kind", "attempt")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ask_id: str
    state: str
    kind: str
    attempt: int
    def __init__(self, ask_id: _Optional[str] = ..., state: _Optional[str] = ..., kind: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class DiscardedEvent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SpawnedEvent(_message.Message):
    __slots__ = ("agent", "task", "reason", "call_id")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    agent: str
    task: str
    reason: str
    call_id: str
    def __init__(self, agent: _Optional[str] = ..., task: _Optional[str] = ..., reason: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class BlockedEvent(_message.Message):
    __slots__ = ("condition", "reason", "ask_id", "waiting_on")
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    WAITING_ON_FIELD_NUMBER: _ClassVar[int]
    condition: str
    reason: str
    ask_id: str
    waiting_on: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, condition: _Optional[str] = ..., reason: _Optional[str] = ..., ask_id: _Optional[str] = ..., waiting_on: _Optional[_Iterable[str]] = ...) -> None: ...

class UnblockedEvent(_message.Message):
    __slots__ = ("condition", "ask_id")
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    condition: str
    ask_id: str
    def __init__(self, condition: _Optional[str] = ..., ask_id: _Optional[str] = ...) -> None: ...

class CommandStartedEvent(_message.Message):
    __slots__ = ("job_id", "command")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    command: str
    def __init__(self, job_id: _Optional[str] = ..., command: _Optional[str] = ...) -> None: ...

class CommandEndedEvent(_message.Message):
    __slots__ = ("job_id", "exit_code", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    exit_code: int
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., exit_code: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class GapEvent(_message.Message):
    __slots__ = ("first_seq", "last_seq")
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    first_seq: int
    last_seq: int
    def __init__(self, first_seq: _Optional[int] = ..., last_seq: _Optional[int] = ...) -> None: ...

class ActiveConversationInfo(_message.Message):
    __slots__ = ("agent", "sender", "message_count", "alive_secs", "title", "speaker", "queued", "last_action", "idle_secs", "waiting", "node", "mode")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ALIVE_SECS_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTION_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    message_count: int
    alive_secs: int
    title: str
    speaker: str
    queued: int
    last_action: str
    idle_secs: int
    waiting: bool
    node: int
    mode: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., message_count: _Optional[int] = ..., alive_secs: _Optional[int] = ..., title: _Optional[str] = ..., speaker: _Optional[str] = ..., queued: _Optional[int] = ..., last_action: _Optional[str] = ..., idle_secs: _Optional[int] = ..., waiting: _Optional[bool] = ..., node: _Optional[int] = ..., mode: _Optional[str] = ...) -> None: ...

class ActiveConversationList(_message.Message):
    __slots__ = ("conversations",)
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[ActiveConversationInfo]
    def __init__(self, conversations: _Optional[_Iterable[_Union[ActiveConversationInfo, _Mapping]]] = ...) -> None: ...

class CompactResponse(_message.Message):
    __slots__ = ("summary", "title", "number")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    summary: str
    title: str
    number: int
    def __init__(self, summary: _Optional[str] = ..., title: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class StretchOpened(_message.Message):
    __slots__ = ("number", "title", "resumed", "resumed_title")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_TITLE_FIELD_NUMBER: _ClassVar[int]
    number: int
    title: str
    resumed: int
    resumed_title: str
    def __init__(self, number: _Optional[int] = ..., title: _Optional[str] = ..., resumed: _Optional[int] = ..., resumed_title: _Optional[str] = ...) -> None: ...

class ConversationModel(_message.Message):
    __slots__ = ("model", "chosen", "previous", "own", "context_window", "provider_model")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_WINDOW_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    chosen: str
    previous: str
    own: str
    context_window: int
    provider_model: str
    def __init__(self, model: _Optional[str] = ..., chosen: _Optional[str] = ..., previous: _Optional[str] = ..., own: _Optional[str] = ..., context_window: _Optional[int] = ..., provider_model: _Optional[str] = ...) -> None: ...

class CronJobInfo(_message.Message):
    __slots__ = ("job_id", "agent", "sender", "name", "runs_as", "prompt", "schedule_type", "schedule", "timezone", "session_mode", "missed", "deliver_to", "timeout_seconds", "cwd", "taint", "created_at", "updated_at", "status", "next_at", "last", "is_workflow", "workflow")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RUNS_AS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    SESSION_MODE_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    DELIVER_TO_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    IS_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    agent: str
    sender: str
    name: str
    runs_as: str
    prompt: str
    schedule_type: str
    schedule: str
    timezone: str
    session_mode: str
    missed: str
    deliver_to: str
    timeout_seconds: float
    cwd: str
    taint: str
    created_at: float
    updated_at: float
    status: str
    next_at: float
    last: FiringInfo
    is_workflow: bool
    workflow: str
    def __init__(self, job_id: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., name: _Optional[str] = ..., runs_as: _Optional[str] = ..., prompt: _Optional[str] = ..., schedule_type: _Optional[str] = ..., schedule: _Optional[str] = ..., timezone: _Optional[str] = ..., session_mode: _Optional[str] = ..., missed: _Optional[str] = ..., deliver_to: _Optional[str] = ..., timeout_seconds: _Optional[float] = ..., cwd: _Optional[str] = ..., taint: _Optional[str] = ..., created_at: _Optional[float] = ..., updated_at: _Optional[float] = ..., status: _Optional[str] = ..., next_at: _Optional[float] = ..., last: _Optional[_Union[FiringInfo, _Mapping]] = ..., is_workflow: _Optional[bool] = ..., workflow: _Optional[str] = ...) -> None: ...

class FiringInfo(_message.Message):
    __slots__ = ("job_id", "name", "due_at", "fired_at", "status", "run_id", "skipped", "manual", "started_at", "ended_at", "result", "error", "tokens", "cost", "waiting_for")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    FIRED_AT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    MANUAL_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    due_at: float
    fired_at: float
    status: str
    run_id: str
    skipped: str
    manual: bool
    started_at: float
    ended_at: float
    result: str
    error: str
    tokens: int
    cost: float
    waiting_for: str
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., due_at: _Optional[float] = ..., fired_at: _Optional[float] = ..., status: _Optional[str] = ..., run_id: _Optional[str] = ..., skipped: _Optional[str] = ..., manual: _Optional[bool] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., result: _Optional[str] = ..., error: _Optional[str] = ..., tokens: _Optional[int] = ..., cost: _Optional[float] = ..., waiting_for: _Optional[str] = ...) -> None: ...

class CronJobList(_message.Message):
    __slots__ = ("jobs", "created", "run_id", "disabled")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[CronJobInfo]
    created: bool
    run_id: str
    disabled: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[CronJobInfo, _Mapping]]] = ..., created: _Optional[bool] = ..., run_id: _Optional[str] = ..., disabled: _Optional[bool] = ...) -> None: ...

class FiringList(_message.Message):
    __slots__ = ("firings",)
    FIRINGS_FIELD_NUMBER: _ClassVar[int]
    firings: _containers.RepeatedCompositeFieldContainer[FiringInfo]
    def __init__(self, firings: _Optional[_Iterable[_Union[FiringInfo, _Mapping]]] = ...) -> None: ...

class WorkflowInfo(_message.Message):
    __slots__ = ("name", "description", "steps", "schedule", "timezone", "deliver_to", "max_parallel", "source", "path", "taint", "job", "error", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    DELIVER_TO_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    steps: _containers.RepeatedCompositeFieldContainer[WorkflowStepInfo]
    schedule: str
    timezone: str
    deliver_to: _containers.RepeatedScalarFieldContainer[str]
    max_parallel: int
    source: str
    path: str
    taint: str
    job: CronJobInfo
    error: str
    last: WorkflowRunInfo
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[WorkflowStepInfo, _Mapping]]] = ..., schedule: _Optional[str] = ..., timezone: _Optional[str] = ..., deliver_to: _Optional[_Iterable[str]] = ..., max_parallel: _Optional[int] = ..., source: _Optional[str] = ..., path: _Optional[str] = ..., taint: _Optional[str] = ..., job: _Optional[_Union[CronJobInfo, _Mapping]] = ..., error: _Optional[str] = ..., last: _Optional[_Union[WorkflowRunInfo, _Mapping]] = ...) -> None: ...

class WorkflowStepInfo(_message.Message):
    __slots__ = ("id", "agent", "depends_on", "when", "prompt", "state", "attempts", "run_id", "started_at", "ended_at", "result", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    agent: str
    depends_on: _containers.RepeatedScalarFieldContainer[str]
    when: str
    prompt: str
    state: str
    attempts: int
    run_id: str
    started_at: float
    ended_at: float
    result: str
    error: str
    def __init__(self, id: _Optional[str] = ..., agent: _Optional[str] = ..., depends_on: _Optional[_Iterable[str]] = ..., when: _Optional[str] = ..., prompt: _Optional[str] = ..., state: _Optional[str] = ..., attempts: _Optional[int] = ..., run_id: _Optional[str] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., result: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class WorkflowRunInfo(_message.Message):
    __slots__ = ("run_id", "name", "sender", "status", "error", "created_at", "ended_at", "steps", "version", "taint", "job_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    sender: str
    status: str
    error: str
    created_at: float
    ended_at: float
    steps: _containers.RepeatedCompositeFieldContainer[WorkflowStepInfo]
    version: str
    taint: str
    job_id: str
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., sender: _Optional[str] = ..., status: _Optional[str] = ..., error: _Optional[str] = ..., created_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., steps: _Optional[_Iterable[_Union[WorkflowStepInfo, _Mapping]]] = ..., version: _Optional[str] = ..., taint: _Optional[str] = ..., job_id: _Optional[str] = ...) -> None: ...

class WorkflowList(_message.Message):
    __slots__ = ("workflows",)
    WORKFLOWS_FIELD_NUMBER: _ClassVar[int]
    workflows: _containers.RepeatedCompositeFieldContainer[WorkflowInfo]
    def __init__(self, workflows: _Optional[_Iterable[_Union[WorkflowInfo, _Mapping]]] = ...) -> None: ...

class WorkflowRunList(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[WorkflowRunInfo]
    def __init__(self, runs: _Optional[_Iterable[_Union[WorkflowRunInfo, _Mapping]]] = ...) -> None: ...

class TaskInfo(_message.Message):
    __slots__ = ("task_id", "agent", "sender", "title", "description", "status", "parent_id", "taken_by", "created_at", "updated_at", "taint")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    agent: str
    sender: str
    title: str
    description: str
    status: str
    parent_id: str
    taken_by: str
    created_at: float
    updated_at: float
    taint: str
    def __init__(self, task_id: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., status: _Optional[str] = ..., parent_id: _Optional[str] = ..., taken_by: _Optional[str] = ..., created_at: _Optional[float] = ..., updated_at: _Optional[float] = ..., taint: _Optional[str] = ...) -> None: ...

class TaskList(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskInfo]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskInfo, _Mapping]]] = ...) -> None: ...

class MemoryInfo(_message.Message):
    __slots__ = ("agent", "sender", "key", "content", "kind", "tags", "confidence", "uses", "created_at", "updated_at", "taint")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    key: str
    content: str
    kind: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    confidence: float
    uses: int
    created_at: float
    updated_at: float
    taint: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., key: _Optional[str] = ..., content: _Optional[str] = ..., kind: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., confidence: _Optional[float] = ..., uses: _Optional[int] = ..., created_at: _Optional[float] = ..., updated_at: _Optional[float] = ..., taint: _Optional[str] = ...) -> None: ...

class MemoryList(_message.Message):
    __slots__ = ("memories", "next_cursor")
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedCompositeFieldContainer[MemoryInfo]
    next_cursor: str
    def __init__(self, memories: _Optional[_Iterable[_Union[MemoryInfo, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GraphFact(_message.Message):
    __slots__ = ("number", "subject", "predicate", "object", "subject_type", "object_type", "confidence", "source", "valid_from", "valid_to", "recorded_at", "retracted_at", "reason", "wrong", "taint", "stated_subject", "stated_object")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_TYPE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_TO_FIELD_NUMBER: _ClassVar[int]
    RECORDED_AT_FIELD_NUMBER: _ClassVar[int]
    RETRACTED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WRONG_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    STATED_SUBJECT_FIELD_NUMBER: _ClassVar[int]
    STATED_OBJECT_FIELD_NUMBER: _ClassVar[int]
    number: int
    subject: str
    predicate: str
    object: str
    subject_type: str
    object_type: str
    confidence: float
    source: str
    valid_from: float
    valid_to: float
    recorded_at: float
    retracted_at: float
    reason: str
    wrong: bool
    taint: str
    stated_subject: str
    stated_object: str
    def __init__(self, number: _Optional[int] = ..., subject: _Optional[str] = ..., predicate: _Optional[str] = ..., object: _Optional[str] = ..., subject_type: _Optional[str] = ..., object_type: _Optional[str] = ..., confidence: _Optional[float] = ..., source: _Optional[str] = ..., valid_from: _Optional[float] = ..., valid_to: _Optional[float] = ..., recorded_at: _Optional[float] = ..., retracted_at: _Optional[float] = ..., reason: _Optional[str] = ..., wrong: _Optional[bool] = ..., taint: _Optional[str] = ..., stated_subject: _Optional[str] = ..., stated_object: _Optional[str] = ...) -> None: ...

class GraphEntity(_message.Message):
    __slots__ = ("id", "type", "properties", "aliases", "taint")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: str
    properties: _containers.ScalarMap[str, str]
    aliases: _containers.RepeatedScalarFieldContainer[str]
    taint: str
    def __init__(self, id: _Optional[str] = ..., type: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., aliases: _Optional[_Iterable[str]] = ..., taint: _Optional[str] = ...) -> None: ...

class GraphTerm(_message.Message):
    __slots__ = ("kind", "name", "status", "exclusive", "reason", "changed_at", "taint")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    status: str
    exclusive: bool
    reason: str
    changed_at: float
    taint: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., status: _Optional[str] = ..., exclusive: _Optional[bool] = ..., reason: _Optional[str] = ..., changed_at: _Optional[float] = ..., taint: _Optional[str] = ...) -> None: ...

class GraphConflict(_message.Message):
    __slots__ = ("conflict_id", "subject", "predicate", "facts")
    CONFLICT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    conflict_id: str
    subject: str
    predicate: str
    facts: _containers.RepeatedCompositeFieldContainer[GraphFact]
    def __init__(self, conflict_id: _Optional[str] = ..., subject: _Optional[str] = ..., predicate: _Optional[str] = ..., facts: _Optional[_Iterable[_Union[GraphFact, _Mapping]]] = ...) -> None: ...

class GraphPage(_message.Message):
    __slots__ = ("facts", "entities", "terms", "conflicts", "next_after", "truncated")
    FACTS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    facts: _containers.RepeatedCompositeFieldContainer[GraphFact]
    entities: _containers.RepeatedCompositeFieldContainer[GraphEntity]
    terms: _containers.RepeatedCompositeFieldContainer[GraphTerm]
    conflicts: _containers.RepeatedCompositeFieldContainer[GraphConflict]
    next_after: int
    truncated: bool
    def __init__(self, facts: _Optional[_Iterable[_Union[GraphFact, _Mapping]]] = ..., entities: _Optional[_Iterable[_Union[GraphEntity, _Mapping]]] = ..., terms: _Optional[_Iterable[_Union[GraphTerm, _Mapping]]] = ..., conflicts: _Optional[_Iterable[_Union[GraphConflict, _Mapping]]] = ..., next_after: _Optional[int] = ..., truncated: _Optional[bool] = ...) -> None: ...

class GraphChanged(_message.Message):
    __slots__ = ("count", "entity", "alias", "conflicts", "term", "fact", "is_new", "proposed", "restored")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    count: int
    entity: str
    alias: str
    conflicts: _containers.RepeatedCompositeFieldContainer[GraphConflict]
    term: GraphTerm
    fact: GraphFact
    is_new: bool
    proposed: _containers.RepeatedScalarFieldContainer[str]
    restored: _containers.RepeatedCompositeFieldContainer[GraphFact]
    def __init__(self, count: _Optional[int] = ..., entity: _Optional[str] = ..., alias: _Optional[str] = ..., conflicts: _Optional[_Iterable[_Union[GraphConflict, _Mapping]]] = ..., term: _Optional[_Union[GraphTerm, _Mapping]] = ..., fact: _Optional[_Union[GraphFact, _Mapping]] = ..., is_new: _Optional[bool] = ..., proposed: _Optional[_Iterable[str]] = ..., restored: _Optional[_Iterable[_Union[GraphFact, _Mapping]]] = ...) -> None: ...

class GraphRefusal(_message.Message):
    __slots__ = ("place", "reason")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    place: str
    reason: str
    def __init__(self, place: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class GraphImported(_message.Message):
    __slots__ = ("entities", "facts", "conflicts", "refusals", "proposed")
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    entities: int
    facts: int
    conflicts: int
    refusals: _containers.RepeatedCompositeFieldContainer[GraphRefusal]
    proposed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, entities: _Optional[int] = ..., facts: _Optional[int] = ..., conflicts: _Optional[int] = ..., refusals: _Optional[_Iterable[_Union[GraphRefusal, _Mapping]]] = ..., proposed: _Optional[_Iterable[str]] = ...) -> None: ...

class KnowledgeEntry(_message.Message):
    __slots__ = ("key", "version", "category", "content", "tags", "source", "source_class", "asset_label", "created_at", "taint", "agent")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_CLASS_FIELD_NUMBER: _ClassVar[int]
    ASSET_LABEL_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    key: str
    version: int
    category: str
    content: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    source: str
    source_class: str
    asset_label: str
    created_at: float
    taint: str
    agent: str
    def __init__(self, key: _Optional[str] = ..., version: _Optional[int] = ..., category: _Optional[str] = ..., content: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ..., source_class: _Optional[str] = ..., asset_label: _Optional[str] = ..., created_at: _Optional[float] = ..., taint: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class LearningInfo(_message.Message):
    __slots__ = ("learning_id", "trigger", "error_pattern", "diagnosis", "fix", "category", "confidence", "occurrences", "taint", "created_at", "updated_at")
    LEARNING_ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    ERROR_PATTERN_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSIS_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    learning_id: str
    trigger: str
    error_pattern: str
    diagnosis: str
    fix: str
    category: str
    confidence: float
    occurrences: int
    taint: str
    created_at: float
    updated_at: float
    def __init__(self, learning_id: _Optional[str] = ..., trigger: _Optional[str] = ..., error_pattern: _Optional[str] = ..., diagnosis: _Optional[str] = ..., fix: _Optional[str] = ..., category: _Optional[str] = ..., confidence: _Optional[float] = ..., occurrences: _Optional[int] = ..., taint: _Optional[str] = ..., created_at: _Optional[float] = ..., updated_at: _Optional[float] = ...) -> None: ...

class InquiryInfo(_message.Message):
    __slots__ = ("inquiry_id", "agent", "sender", "topic", "question", "context", "priority", "status", "created_at", "asked_at", "answer", "taint")
    INQUIRY_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    inquiry_id: str
    agent: str
    sender: str
    topic: str
    question: str
    context: str
    priority: str
    status: str
    created_at: float
    asked_at: float
    answer: str
    taint: str
    def __init__(self, inquiry_id: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., topic: _Optional[str] = ..., question: _Optional[str] = ..., context: _Optional[str] = ..., priority: _Optional[str] = ..., status: _Optional[str] = ..., created_at: _Optional[float] = ..., asked_at: _Optional[float] = ..., answer: _Optional[str] = ..., taint: _Optional[str] = ...) -> None: ...

class KnowledgePage(_message.Message):
    __slots__ = ("entries", "learnings", "stats", "next_after", "inquiries")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LEARNINGS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    NEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    INQUIRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[KnowledgeEntry]
    learnings: _containers.RepeatedCompositeFieldContainer[LearningInfo]
    stats: str
    next_after: str
    inquiries: _containers.RepeatedCompositeFieldContainer[InquiryInfo]
    def __init__(self, entries: _Optional[_Iterable[_Union[KnowledgeEntry, _Mapping]]] = ..., learnings: _Optional[_Iterable[_Union[LearningInfo, _Mapping]]] = ..., stats: _Optional[str] = ..., next_after: _Optional[str] = ..., inquiries: _Optional[_Iterable[_Union[InquiryInfo, _Mapping]]] = ...) -> None: ...

class KnowledgeChanged(_message.Message):
    __slots__ = ("count", "version", "is_new")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    count: int
    version: int
    is_new: bool
    def __init__(self, count: _Optional[int] = ..., version: _Optional[int] = ..., is_new: _Optional[bool] = ...) -> None: ...

class ConversationInfo(_message.Message):
    __slots__ = ("agent", "sender", "seq", "title", "message_count", "alive_secs", "date", "created_at", "updated_at", "cwd", "archives", "running", "taint", "mode", "instructions_off")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ALIVE_SECS_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_OFF_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    seq: int
    title: str
    message_count: int
    alive_secs: int
    date: str
    created_at: float
    updated_at: float
    cwd: str
    archives: int
    running: bool
    taint: str
    mode: str
    instructions_off: bool
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., seq: _Optional[int] = ..., title: _Optional[str] = ..., message_count: _Optional[int] = ..., alive_secs: _Optional[int] = ..., date: _Optional[str] = ..., created_at: _Optional[float] = ..., updated_at: _Optional[float] = ..., cwd: _Optional[str] = ..., archives: _Optional[int] = ..., running: _Optional[bool] = ..., taint: _Optional[str] = ..., mode: _Optional[str] = ..., instructions_off: _Optional[bool] = ...) -> None: ...

class ConversationList(_message.Message):
    __slots__ = ("conversations", "next_cursor")
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[ConversationInfo]
    next_cursor: str
    def __init__(self, conversations: _Optional[_Iterable[_Union[ConversationInfo, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class AgentInfo(_message.Message):
    __slots__ = ("name", "description", "model", "source", "path", "instruction", "flaw", "status", "priority", "prefixes", "all_tools", "keywords", "capabilities", "accepts", "returns", "cannot_do", "always_include", "session_isolation", "denied", "warnings", "model_tools", "missing", "context_window", "cannot_yet", "role", "auto_approve", "levels")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    FLAW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PREFIXES_FIELD_NUMBER: _ClassVar[int]
    ALL_TOOLS_FIELD_NUMBER: _ClassVar[int]
    KEYWORDS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    RETURNS_FIELD_NUMBER: _ClassVar[int]
    CANNOT_DO_FIELD_NUMBER: _ClassVar[int]
    ALWAYS_INCLUDE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ISOLATION_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    MODEL_TOOLS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_WINDOW_FIELD_NUMBER: _ClassVar[int]
    CANNOT_YET_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    AUTO_APPROVE_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    model: str
    source: str
    path: str
    instruction: str
    flaw: str
    status: str
    priority: int
    prefixes: _containers.RepeatedScalarFieldContainer[str]
    all_tools: bool
    keywords: _containers.RepeatedScalarFieldContainer[str]
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    accepts: str
    returns: str
    cannot_do: _containers.RepeatedScalarFieldContainer[str]
    always_include: bool
    session_isolation: bool
    denied: _containers.RepeatedScalarFieldContainer[str]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    model_tools: str
    missing: str
    context_window: int
    cannot_yet: _containers.RepeatedScalarFieldContainer[str]
    role: str
    auto_approve: str
    levels: _containers.RepeatedCompositeFieldContainer[AutoApproveInfo]
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., model: _Optional[str] = ..., source: _Optional[str] = ..., path: _Optional[str] = ..., instruction: _Optional[str] = ..., flaw: _Optional[str] = ..., status: _Optional[str] = ..., priority: _Optional[int] = ..., prefixes: _Optional[_Iterable[str]] = ..., all_tools: _Optional[bool] = ..., keywords: _Optional[_Iterable[str]] = ..., capabilities: _Optional[_Iterable[str]] = ..., accepts: _Optional[str] = ..., returns: _Optional[str] = ..., cannot_do: _Optional[_Iterable[str]] = ..., always_include: _Optional[bool] = ..., session_isolation: _Optional[bool] = ..., denied: _Optional[_Iterable[str]] = ..., warnings: _Optional[_Iterable[str]] = ..., model_tools: _Optional[str] = ..., missing: _Optional[str] = ..., context_window: _Optional[int] = ..., cannot_yet: _Optional[_Iterable[str]] = ..., role: _Optional[str] = ..., auto_approve: _Optional[str] = ..., levels: _Optional[_Iterable[_Union[AutoApproveInfo, _Mapping]]] = ...) -> None: ...

class AutoApproveInfo(_message.Message):
    __slots__ = ("level", "meaning", "tools")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MEANING_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    level: str
    meaning: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, level: _Optional[str] = ..., meaning: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ...) -> None: ...

class AgentList(_message.Message):
    __slots__ = ("agents", "hidden_examples")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentInfo]
    hidden_examples: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentInfo, _Mapping]]] = ..., hidden_examples: _Optional[_Iterable[str]] = ...) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("mode", "teammate_runtime", "max_delegation_rounds", "default_model", "provider", "run_ledger", "agent_memory", "sources", "active", "teammates", "agents_dir", "foreign_dirs", "hooks", "flaws", "runtime_off_reason")
    class SourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MODE_FIELD_NUMBER: _ClassVar[int]
    TEAMMATE_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    MAX_DELEGATION_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    RUN_LEDGER_FIELD_NUMBER: _ClassVar[int]
    AGENT_MEMORY_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    TEAMMATES_FIELD_NUMBER: _ClassVar[int]
    AGENTS_DIR_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_DIRS_FIELD_NUMBER: _ClassVar[int]
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    FLAWS_FIELD_NUMBER: _ClassVar[int]
    RUNTIME_OFF_REASON_FIELD_NUMBER: _ClassVar[int]
    mode: str
    teammate_runtime: str
    max_delegation_rounds: int
    default_model: str
    provider: str
    run_ledger: bool
    agent_memory: bool
    sources: _containers.ScalarMap[str, int]
    active: int
    teammates: _containers.RepeatedScalarFieldContainer[str]
    agents_dir: str
    foreign_dirs: _containers.RepeatedScalarFieldContainer[str]
    hooks: _containers.RepeatedScalarFieldContainer[str]
    flaws: _containers.RepeatedScalarFieldContainer[str]
    runtime_off_reason: str
    def __init__(self, mode: _Optional[str] = ..., teammate_runtime: _Optional[str] = ..., max_delegation_rounds: _Optional[int] = ..., default_model: _Optional[str] = ..., provider: _Optional[str] = ..., run_ledger: _Optional[bool] = ..., agent_memory: _Optional[bool] = ..., sources: _Optional[_Mapping[str, int]] = ..., active: _Optional[int] = ..., teammates: _Optional[_Iterable[str]] = ..., agents_dir: _Optional[str] = ..., foreign_dirs: _Optional[_Iterable[str]] = ..., hooks: _Optional[_Iterable[str]] = ..., flaws: _Optional[_Iterable[str]] = ..., runtime_off_reason: _Optional[str] = ...) -> None: ...

class AgentTools(_message.Message):
    __slots__ = ("agent", "source", "teammate", "tools", "left_out", "left_out_reason")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TEAMMATE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_REASON_FIELD_NUMBER: _ClassVar[int]
    agent: str
    source: str
    teammate: bool
    tools: _containers.RepeatedScalarFieldContainer[str]
    left_out: _containers.RepeatedScalarFieldContainer[str]
    left_out_reason: str
    def __init__(self, agent: _Optional[str] = ..., source: _Optional[str] = ..., teammate: _Optional[bool] = ..., tools: _Optional[_Iterable[str]] = ..., left_out: _Optional[_Iterable[str]] = ..., left_out_reason: _Optional[str] = ...) -> None: ...

class UnmatchedTool(_message.Message):
    __slots__ = ("name", "near")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    name: str
    near: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., near: _Optional[_Iterable[str]] = ...) -> None: ...

class ToolCategory(_message.Message):
    __slots__ = ("name", "description", "enabled", "reason", "tools")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    enabled: bool
    reason: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., enabled: _Optional[bool] = ..., reason: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ...) -> None: ...

class AgentToolList(_message.Message):
    __slots__ = ("agents", "unmatched", "shared", "categories", "no_tools_reason")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    UNMATCHED_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    NO_TOOLS_REASON_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentTools]
    unmatched: _containers.RepeatedCompositeFieldContainer[UnmatchedTool]
    shared: _containers.RepeatedScalarFieldContainer[str]
    categories: _containers.RepeatedCompositeFieldContainer[ToolCategory]
    no_tools_reason: str
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentTools, _Mapping]]] = ..., unmatched: _Optional[_Iterable[_Union[UnmatchedTool, _Mapping]]] = ..., shared: _Optional[_Iterable[str]] = ..., categories: _Optional[_Iterable[_Union[ToolCategory, _Mapping]]] = ..., no_tools_reason: _Optional[str] = ...) -> None: ...

class VocabularyInfo(_message.Message):
    __slots__ = ("agent", "words", "requests", "model", "written_at", "being_written", "obstacle", "phrases", "is_teammate")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_FIELD_NUMBER: _ClassVar[int]
    BEING_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    OBSTACLE_FIELD_NUMBER: _ClassVar[int]
    PHRASES_FIELD_NUMBER: _ClassVar[int]
    IS_TEAMMATE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    words: int
    requests: int
    model: str
    written_at: float
    being_written: bool
    obstacle: str
    phrases: _containers.RepeatedCompositeFieldContainer[PhrasesInfo]
    is_teammate: bool
    def __init__(self, agent: _Optional[str] = ..., words: _Optional[int] = ..., requests: _Optional[int] = ..., model: _Optional[str] = ..., written_at: _Optional[float] = ..., being_written: _Optional[bool] = ..., obstacle: _Optional[str] = ..., phrases: _Optional[_Iterable[_Union[PhrasesInfo, _Mapping]]] = ..., is_teammate: _Optional[bool] = ...) -> None: ...

class PhrasesInfo(_message.Message):
    __slots__ = ("language", "words", "requests")
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    language: str
    words: _containers.RepeatedScalarFieldContainer[str]
    requests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, language: _Optional[str] = ..., words: _Optional[_Iterable[str]] = ..., requests: _Optional[_Iterable[str]] = ...) -> None: ...

class VocabularyList(_message.Message):
    __slots__ = ("vocabularies", "off_reason")
    VOCABULARIES_FIELD_NUMBER: _ClassVar[int]
    OFF_REASON_FIELD_NUMBER: _ClassVar[int]
    vocabularies: _containers.RepeatedCompositeFieldContainer[VocabularyInfo]
    off_reason: str
    def __init__(self, vocabularies: _Optional[_Iterable[_Union[VocabularyInfo, _Mapping]]] = ..., off_reason: _Optional[str] = ...) -> None: ...

class DaemonStats(_message.Message):
    __slots__ = ("uptime_secs", "active_conversations", "registered_agents", "active_model", "version", "pid", "rss_bytes", "http", "tcp", "connections", "open_asks", "drain_seconds", "unauthenticated_connections", "rejected_connections", "max_connections", "problems", "store", "mode", "sandbox", "memory_limit", "process_limit", "broker")
    UPTIME_SECS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AGENTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    TCP_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    OPEN_ASKS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UNAUTHENTICATED_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    REJECTED_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    uptime_secs: int
    active_conversations: int
    registered_agents: int
    active_model: str
    version: str
    pid: int
    rss_bytes: int
    http: str
    tcp: str
    connections: int
    open_asks: int
    drain_seconds: float
    unauthenticated_connections: int
    rejected_connections: int
    max_connections: int
    problems: _containers.RepeatedScalarFieldContainer[str]
    store: str
    mode: str
    sandbox: str
    memory_limit: str
    process_limit: str
    broker: BrokerStatus
    def __init__(self, uptime_secs: _Optional[int] = ..., active_conversations: _Optional[int] = ..., registered_agents: _Optional[int] = ..., active_model: _Optional[str] = ..., version: _Optional[str] = ..., pid: _Optional[int] = ..., rss_bytes: _Optional[int] = ..., http: _Optional[str] = ..., tcp: _Optional[str] = ..., connections: _Optional[int] = ..., open_asks: _Optional[int] = ..., drain_seconds: _Optional[float] = ..., unauthenticated_connections: _Optional[int] = ..., rejected_connections: _Optional[int] = ..., max_connections: _Optional[int] = ..., problems: _Optional[_Iterable[str]] = ..., store: _Optional[str] = ..., mode: _Optional[str] = ..., sandbox: _Optional[str] = ..., memory_limit: _Optional[str] = ..., process_limit: _Optional[str] = ..., broker: _Optional[_Union[BrokerStatus, _Mapping]] = ...) -> None: ...

class BrokerStatus(_message.Message):
    __slots__ = ("url", "name", "connected", "problem", "waiting", "daemons", "dropped")
    class DroppedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    URL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    DAEMONS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    url: str
    name: str
    connected: bool
    problem: str
    waiting: int
    daemons: int
    dropped: _containers.ScalarMap[str, int]
    def __init__(self, url: _Optional[str] = ..., name: _Optional[str] = ..., connected: _Optional[bool] = ..., problem: _Optional[str] = ..., waiting: _Optional[int] = ..., daemons: _Optional[int] = ..., dropped: _Optional[_Mapping[str, int]] = ...) -> None: ...

class AgentEventMsg(_message.Message):
    __slots__ = ("agent", "sender", "kind", "content", "timestamp", "tool_calls", "tool_output", "tool_is_error", "speaker", "user_seq", "seq", "run_id", "parent_id", "root_id", "root_agent", "root_sender", "body", "duration_ms", "gap")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TOOL_IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    USER_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_AGENT_FIELD_NUMBER: _ClassVar[int]
    ROOT_SENDER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    kind: AgentEventKind
    content: str
    timestamp: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCallInfo]
    tool_output: str
    tool_is_error: bool
    speaker: str
    user_seq: int
    seq: int
    run_id: str
    parent_id: str
    root_id: str
    root_agent: str
    root_sender: str
    body: StreamEvent
    duration_ms: int
    gap: GapEvent
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., kind: _Optional[_Union[AgentEventKind, str]] = ..., content: _Optional[str] = ..., timestamp: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCallInfo, _Mapping]]] = ..., tool_output: _Optional[str] = ..., tool_is_error: _Optional[bool] = ..., speaker: _Optional[str] = ..., user_seq: _Optional[int] = ..., seq: _Optional[int] = ..., run_id: _Optional[str] = ..., parent_id: _Optional[str] = ..., root_id: _Optional[str] = ..., root_agent: _Optional[str] = ..., root_sender: _Optional[str] = ..., body: _Optional[_Union[StreamEvent, _Mapping]] = ..., duration_ms: _Optional[int] = ..., gap: _Optional[_Union[GapEvent, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "daemon_version", "principal", "default_sender", "config_problem", "more_config_errors")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DAEMON_VERSION_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_SENDER_FIELD_NUMBER: _ClassVar[int]
    CONFIG_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    MORE_CONFIG_ERRORS_FIELD_NUMBER: _ClassVar[int]
    version: int
    daemon_version: str
    principal: str
    default_sender: str
    config_problem: str
    more_config_errors: int
    def __init__(self, version: _Optional[int] = ..., daemon_version: _Optional[str] = ..., principal: _Optional[str] = ..., default_sender: _Optional[str] = ..., config_problem: _Optional[str] = ..., more_config_errors: _Optional[int] = ...) -> None: ...

class HistoryMessage(_message.Message):
    __slots__ = ("seq", "role", "content", "agent", "tool_calls", "tool_call_id", "created_at", "outcome", "error", "is_error", "thinking", "archive", "taint", "offset", "length", "steered", "duration_ms", "private", "sent")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    TAINT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    STEERED_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    role: str
    content: str
    agent: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCallInfo]
    tool_call_id: str
    created_at: float
    outcome: str
    error: str
    is_error: bool
    thinking: str
    archive: int
    taint: str
    offset: int
    length: int
    steered: bool
    duration_ms: int
    private: bool
    sent: _containers.RepeatedCompositeFieldContainer[UserMessageInfo]
    def __init__(self, seq: _Optional[int] = ..., role: _Optional[str] = ..., content: _Optional[str] = ..., agent: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCallInfo, _Mapping]]] = ..., tool_call_id: _Optional[str] = ..., created_at: _Optional[float] = ..., outcome: _Optional[str] = ..., error: _Optional[str] = ..., is_error: _Optional[bool] = ..., thinking: _Optional[str] = ..., archive: _Optional[int] = ..., taint: _Optional[str] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., steered: _Optional[bool] = ..., duration_ms: _Optional[int] = ..., private: _Optional[bool] = ..., sent: _Optional[_Iterable[_Union[UserMessageInfo, _Mapping]]] = ...) -> None: ...

class History(_message.Message):
    __slots__ = ("messages", "title", "cwd", "summary", "summary_title", "queued", "queued_guests", "queued_steers", "next_seq", "context_tokens")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_TITLE_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_GUESTS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_STEERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQ_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[HistoryMessage]
    title: str
    cwd: str
    summary: str
    summary_title: str
    queued: _containers.RepeatedScalarFieldContainer[str]
    queued_guests: _containers.RepeatedScalarFieldContainer[str]
    queued_steers: _containers.RepeatedScalarFieldContainer[bool]
    next_seq: int
    context_tokens: int
    def __init__(self, messages: _Optional[_Iterable[_Union[HistoryMessage, _Mapping]]] = ..., title: _Optional[str] = ..., cwd: _Optional[str] = ..., summary: _Optional[str] = ..., summary_title: _Optional[str] = ..., queued: _Optional[_Iterable[str]] = ..., queued_guests: _Optional[_Iterable[str]] = ..., queued_steers: _Optional[_Iterable[bool]] = ..., next_seq: _Optional[int] = ..., context_tokens: _Optional[int] = ...) -> None: ...

class ArchiveInfo(_message.Message):
    __slots__ = ("number", "title", "summary", "archived_at", "first_seq", "last_seq", "messages", "next_seq", "closed", "resumed")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_AT_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQ_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    number: int
    title: str
    summary: str
    archived_at: float
    first_seq: int
    last_seq: int
    messages: _containers.RepeatedCompositeFieldContainer[HistoryMessage]
    next_seq: int
    closed: bool
    resumed: int
    def __init__(self, number: _Optional[int] = ..., title: _Optional[str] = ..., summary: _Optional[str] = ..., archived_at: _Optional[float] = ..., first_seq: _Optional[int] = ..., last_seq: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[HistoryMessage, _Mapping]]] = ..., next_seq: _Optional[int] = ..., closed: _Optional[bool] = ..., resumed: _Optional[int] = ...) -> None: ...

class ArchiveList(_message.Message):
    __slots__ = ("archives",)
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    archives: _containers.RepeatedCompositeFieldContainer[ArchiveInfo]
    def __init__(self, archives: _Optional[_Iterable[_Union[ArchiveInfo, _Mapping]]] = ...) -> None: ...

class Exported(_message.Message):
    __slots__ = ("jsonl", "messages", "next_seq")
    JSONL_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQ_FIELD_NUMBER: _ClassVar[int]
    jsonl: str
    messages: int
    next_seq: int
    def __init__(self, jsonl: _Optional[str] = ..., messages: _Optional[int] = ..., next_seq: _Optional[int] = ...) -> None: ...

class Imported(_message.Message):
    __slots__ = ("agent", "sender", "messages", "archives", "skipped")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    messages: int
    archives: int
    skipped: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., messages: _Optional[int] = ..., archives: _Optional[int] = ..., skipped: _Optional[_Iterable[str]] = ...) -> None: ...

class Deleted(_message.Message):
    __slots__ = ("messages", "archives", "runs", "deleted", "memories", "tasks", "notes", "outputs", "lessons", "rules", "jobs", "files", "mail", "schedules", "documents")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    LESSONS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    MAIL_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    messages: int
    archives: int
    runs: int
    deleted: bool
    memories: int
    tasks: int
    notes: int
    outputs: int
    lessons: int
    rules: int
    jobs: int
    files: int
    mail: int
    schedules: int
    documents: int
    def __init__(self, messages: _Optional[int] = ..., archives: _Optional[int] = ..., runs: _Optional[int] = ..., deleted: _Optional[bool] = ..., memories: _Optional[int] = ..., tasks: _Optional[int] = ..., notes: _Optional[int] = ..., outputs: _Optional[int] = ..., lessons: _Optional[int] = ..., rules: _Optional[int] = ..., jobs: _Optional[int] = ..., files: _Optional[int] = ..., mail: _Optional[int] = ..., schedules: _Optional[int] = ..., documents: _Optional[int] = ...) -> None: ...

class UsageInfo(_message.Message):
    __slots__ = ("agent", "sender", "model", "runs", "prompt", "completion", "cache_hit", "reasoning", "cost", "root_agent")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    CACHE_HIT_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    ROOT_AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    model: str
    runs: int
    prompt: int
    completion: int
    cache_hit: int
    reasoning: int
    cost: float
    root_agent: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., model: _Optional[str] = ..., runs: _Optional[int] = ..., prompt: _Optional[int] = ..., completion: _Optional[int] = ..., cache_hit: _Optional[int] = ..., reasoning: _Optional[int] = ..., cost: _Optional[float] = ..., root_agent: _Optional[str] = ...) -> None: ...

class UsageList(_message.Message):
    __slots__ = ("usage",)
    USAGE_FIELD_NUMBER: _ClassVar[int]
    usage: _containers.RepeatedCompositeFieldContainer[UsageInfo]
    def __init__(self, usage: _Optional[_Iterable[_Union[UsageInfo, _Mapping]]] = ...) -> None: ...

class Recalled(_message.Message):
    __slots__ = ("archives",)
    ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    archives: _containers.RepeatedCompositeFieldContainer[ArchiveInfo]
    def __init__(self, archives: _Optional[_Iterable[_Union[ArchiveInfo, _Mapping]]] = ...) -> None: ...

class TokenInfo(_message.Message):
    __slots__ = ("name", "senders", "created_at", "last_used_at", "revoked_at", "sender", "may_approve")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENDERS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_AT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_AT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MAY_APPROVE_FIELD_NUMBER: _ClassVar[int]
    name: str
    senders: _containers.RepeatedScalarFieldContainer[str]
    created_at: float
    last_used_at: float
    revoked_at: float
    sender: str
    may_approve: bool
    def __init__(self, name: _Optional[str] = ..., senders: _Optional[_Iterable[str]] = ..., created_at: _Optional[float] = ..., last_used_at: _Optional[float] = ..., revoked_at: _Optional[float] = ..., sender: _Optional[str] = ..., may_approve: _Optional[bool] = ...) -> None: ...

class TokenRevoked(_message.Message):
    __slots__ = ("paused_jobs",)
    PAUSED_JOBS_FIELD_NUMBER: _ClassVar[int]
    paused_jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, paused_jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class TokenList(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[TokenInfo]
    def __init__(self, tokens: _Optional[_Iterable[_Union[TokenInfo, _Mapping]]] = ...) -> None: ...

class TokenCreated(_message.Message):
    __slots__ = ("name", "token", "sender")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    sender: str
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ..., sender: _Optional[str] = ...) -> None: ...

class ModelInfo(_message.Message):
    __slots__ = ("name", "provider", "model", "is_default", "window", "tools", "problem", "base_url", "tools_there", "left_out", "window_is_assumed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    BASE_URL_FIELD_NUMBER: _ClassVar[int]
    TOOLS_THERE_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_IS_ASSUMED_FIELD_NUMBER: _ClassVar[int]
    name: str
    provider: str
    model: str
    is_default: bool
    window: int
    tools: str
    problem: str
    base_url: str
    tools_there: int
    left_out: _containers.RepeatedScalarFieldContainer[str]
    window_is_assumed: bool
    def __init__(self, name: _Optional[str] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., is_default: _Optional[bool] = ..., window: _Optional[int] = ..., tools: _Optional[str] = ..., problem: _Optional[str] = ..., base_url: _Optional[str] = ..., tools_there: _Optional[int] = ..., left_out: _Optional[_Iterable[str]] = ..., window_is_assumed: _Optional[bool] = ...) -> None: ...

class ModelList(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ModelInfo]
    def __init__(self, models: _Optional[_Iterable[_Union[ModelInfo, _Mapping]]] = ...) -> None: ...

class ModelTested(_message.Message):
    __slots__ = ("name", "content", "first_token_ms", "total_ms", "usage", "window")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_MS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: str
    first_token_ms: int
    total_ms: int
    usage: TokenUsage
    window: int
    def __init__(self, name: _Optional[str] = ..., content: _Optional[str] = ..., first_token_ms: _Optional[int] = ..., total_ms: _Optional[int] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ..., window: _Optional[int] = ...) -> None: ...

class ServerModelList(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class BackedUp(_message.Message):
    __slots__ = ("path", "bytes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class AskInfo(_message.Message):
    __slots__ = ("agent", "sender", "ask_id", "questions", "opened_at", "expires_at", "kind", "tool", "line", "preview", "reason", "attempt", "rule", "speaker", "arguments", "whole_rule", "by", "run_id", "node", "patterns")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_RULE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    ask_id: str
    questions: _containers.RepeatedCompositeFieldContainer[AskQuestion]
    opened_at: float
    expires_at: float
    kind: str
    tool: str
    line: str
    preview: str
    reason: str
    attempt: int
    rule: str
    speaker: str
    arguments: str
    whole_rule: str
    by: Asker
    run_id: str
    node: int
    patterns: _containers.RepeatedCompositeFieldContainer[PatternInfo]
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., ask_id: _Optional[str] = ..., questions: _Optional[_Iterable[_Union[AskQuestion, _Mapping]]] = ..., opened_at: _Optional[float] = ..., expires_at: _Optional[float] = ..., kind: _Optional[str] = ..., tool: _Optional[str] = ..., line: _Optional[str] = ..., preview: _Optional[str] = ..., reason: _Optional[str] = ..., attempt: _Optional[int] = ..., rule: _Optional[str] = ..., speaker: _Optional[str] = ..., arguments: _Optional[str] = ..., whole_rule: _Optional[str] = ..., by: _Optional[_Union[Asker, _Mapping]] = ..., run_id: _Optional[str] = ..., node: _Optional[int] = ..., patterns: _Optional[_Iterable[_Union[PatternInfo, _Mapping]]] = ...) -> None: ...

class AskList(_message.Message):
    __slots__ = ("asks",)
    ASKS_FIELD_NUMBER: _ClassVar[int]
    asks: _containers.RepeatedCompositeFieldContainer[AskInfo]
    def __init__(self, asks: _Optional[_Iterable[_Union[AskInfo, _Mapping]]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("level", "check", "message", "fix")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    level: str
    check: str
    message: str
    fix: str
    def __init__(self, level: _Optional[str] = ..., check: _Optional[str] = ..., message: _Optional[str] = ..., fix: _Optional[str] = ...) -> None: ...

class Checked(_message.Message):
    __slots__ = ("findings",)
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class Reloaded(_message.Message):
    __slots__ = ("agents", "flaws", "restart", "changed", "changed_agents")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    FLAWS_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: int
    flaws: _containers.RepeatedScalarFieldContainer[str]
    restart: _containers.RepeatedScalarFieldContainer[str]
    changed: _containers.RepeatedScalarFieldContainer[str]
    changed_agents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agents: _Optional[int] = ..., flaws: _Optional[_Iterable[str]] = ..., restart: _Optional[_Iterable[str]] = ..., changed: _Optional[_Iterable[str]] = ..., changed_agents: _Optional[_Iterable[str]] = ...) -> None: ...

class AskDecided(_message.Message):
    __slots__ = ("ask_id", "state", "rule")
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    ask_id: str
    state: str
    rule: str
    def __init__(self, ask_id: _Optional[str] = ..., state: _Optional[str] = ..., rule: _Optional[str] = ...) -> None: ...

class RuleInfo(_message.Message):
    __slots__ = ("number", "text", "agent", "sender", "tool", "pattern", "run", "created_at", "created_by", "teammates", "scope")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    TEAMMATES_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    number: int
    text: str
    agent: str
    sender: str
    tool: str
    pattern: str
    run: str
    created_at: float
    created_by: str
    teammates: _containers.RepeatedScalarFieldContainer[str]
    scope: str
    def __init__(self, number: _Optional[int] = ..., text: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., tool: _Optional[str] = ..., pattern: _Optional[str] = ..., run: _Optional[str] = ..., created_at: _Optional[float] = ..., created_by: _Optional[str] = ..., teammates: _Optional[_Iterable[str]] = ..., scope: _Optional[str] = ...) -> None: ...

class RuleList(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[RuleInfo]
    def __init__(self, rules: _Optional[_Iterable[_Union[RuleInfo, _Mapping]]] = ...) -> None: ...

class HookInfo(_message.Message):
    __slots__ = ("name", "phase", "enabled", "counts")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    phase: str
    enabled: bool
    counts: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., phase: _Optional[str] = ..., enabled: _Optional[bool] = ..., counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class HookList(_message.Message):
    __slots__ = ("hooks",)
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    hooks: _containers.RepeatedCompositeFieldContainer[HookInfo]
    def __init__(self, hooks: _Optional[_Iterable[_Union[HookInfo, _Mapping]]] = ...) -> None: ...

class ModeInfo(_message.Message):
    __slots__ = ("agent", "sender", "mode", "is_own", "meaning", "warning", "next", "auto_approve", "has_own_level", "level_meaning")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    IS_OWN_FIELD_NUMBER: _ClassVar[int]
    MEANING_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    AUTO_APPROVE_FIELD_NUMBER: _ClassVar[int]
    HAS_OWN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    LEVEL_MEANING_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sender: str
    mode: str
    is_own: bool
    meaning: str
    warning: str
    next: str
    auto_approve: str
    has_own_level: bool
    level_meaning: str
    def __init__(self, agent: _Optional[str] = ..., sender: _Optional[str] = ..., mode: _Optional[str] = ..., is_own: _Optional[bool] = ..., meaning: _Optional[str] = ..., warning: _Optional[str] = ..., next: _Optional[str] = ..., auto_approve: _Optional[str] = ..., has_own_level: _Optional[bool] = ..., level_meaning: _Optional[str] = ...) -> None: ...

class GoalList(_message.Message):
    __slots__ = ("goals",)
    GOALS_FIELD_NUMBER: _ClassVar[int]
    goals: _containers.RepeatedCompositeFieldContainer[GoalInfo]
    def __init__(self, goals: _Optional[_Iterable[_Union[GoalInfo, _Mapping]]] = ...) -> None: ...

class GoalInfo(_message.Message):
    __slots__ = ("goal_id", "agent", "sender", "owner", "kind", "state", "label", "unread", "active_at")
    GOAL_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_AT_FIELD_NUMBER: _ClassVar[int]
    goal_id: str
    agent: str
    sender: str
    owner: str
    kind: str
    state: str
    label: str
    unread: int
    active_at: float
    def __init__(self, goal_id: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., owner: _Optional[str] = ..., kind: _Optional[str] = ..., state: _Optional[str] = ..., label: _Optional[str] = ..., unread: _Optional[int] = ..., active_at: _Optional[float] = ...) -> None: ...

class PeerList(_message.Message):
    __slots__ = ("peers",)
    PEERS_FIELD_NUMBER: _ClassVar[int]
    peers: _containers.RepeatedCompositeFieldContainer[PeerInfo]
    def __init__(self, peers: _Optional[_Iterable[_Union[PeerInfo, _Mapping]]] = ...) -> None: ...

class PeerInfo(_message.Message):
    __slots__ = ("agent_id", "description", "reachable", "wake", "muted", "goals", "unread", "daemon", "last_seen")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    WAKE_FIELD_NUMBER: _ClassVar[int]
    MUTED_FIELD_NUMBER: _ClassVar[int]
    GOALS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    description: str
    reachable: bool
    wake: bool
    muted: bool
    goals: int
    unread: int
    daemon: str
    last_seen: float
    def __init__(self, agent_id: _Optional[str] = ..., description: _Optional[str] = ..., reachable: _Optional[bool] = ..., wake: _Optional[bool] = ..., muted: _Optional[bool] = ..., goals: _Optional[int] = ..., unread: _Optional[int] = ..., daemon: _Optional[str] = ..., last_seen: _Optional[float] = ...) -> None: ...

class MailReport(_message.Message):
    __slots__ = ("delivered_to", "unreachable_reasons", "queued_for")
    DELIVERED_TO_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_REASONS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FOR_FIELD_NUMBER: _ClassVar[int]
    delivered_to: _containers.RepeatedScalarFieldContainer[str]
    unreachable_reasons: _containers.RepeatedScalarFieldContainer[str]
    queued_for: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, delivered_to: _Optional[_Iterable[str]] = ..., unreachable_reasons: _Optional[_Iterable[str]] = ..., queued_for: _Optional[_Iterable[str]] = ...) -> None: ...

class DeadMailList(_message.Message):
    __slots__ = ("mail",)
    MAIL_FIELD_NUMBER: _ClassVar[int]
    mail: _containers.RepeatedCompositeFieldContainer[DeadMailInfo]
    def __init__(self, mail: _Optional[_Iterable[_Union[DeadMailInfo, _Mapping]]] = ...) -> None: ...

class DeadMailInfo(_message.Message):
    __slots__ = ("mail", "evicted_at")
    MAIL_FIELD_NUMBER: _ClassVar[int]
    EVICTED_AT_FIELD_NUMBER: _ClassVar[int]
    mail: MailInfo
    evicted_at: float
    def __init__(self, mail: _Optional[_Union[MailInfo, _Mapping]] = ..., evicted_at: _Optional[float] = ...) -> None: ...

class DaemonList(_message.Message):
    __slots__ = ("daemons", "name", "fingerprint", "problem")
    DAEMONS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    daemons: _containers.RepeatedCompositeFieldContainer[OtherDaemonInfo]
    name: str
    fingerprint: str
    problem: str
    def __init__(self, daemons: _Optional[_Iterable[_Union[OtherDaemonInfo, _Mapping]]] = ..., name: _Optional[str] = ..., fingerprint: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class OtherDaemonInfo(_message.Message):
    __slots__ = ("name", "fingerprint", "live", "last_seen", "version", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    fingerprint: str
    live: bool
    last_seen: float
    version: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., fingerprint: _Optional[str] = ..., live: _Optional[bool] = ..., last_seen: _Optional[float] = ..., version: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class OutboxList(_message.Message):
    __slots__ = ("mail", "total")
    MAIL_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    mail: _containers.RepeatedCompositeFieldContainer[OutboxItemInfo]
    total: int
    def __init__(self, mail: _Optional[_Iterable[_Union[OutboxItemInfo, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class OutboxItemInfo(_message.Message):
    __slots__ = ("mail", "published")
    MAIL_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    mail: MailInfo
    published: bool
    def __init__(self, mail: _Optional[_Union[MailInfo, _Mapping]] = ..., published: _Optional[bool] = ...) -> None: ...

class AgentMuted(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agents: _Optional[_Iterable[str]] = ...) -> None: ...

class DigestInfo(_message.Message):
    __slots__ = ("since", "is_due", "items", "total")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    IS_DUE_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    since: float
    is_due: bool
    items: _containers.RepeatedCompositeFieldContainer[DigestItemInfo]
    total: int
    def __init__(self, since: _Optional[float] = ..., is_due: _Optional[bool] = ..., items: _Optional[_Iterable[_Union[DigestItemInfo, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class DigestItemInfo(_message.Message):
    __slots__ = ("kind", "at", "agent", "text", "id", "message")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    at: float
    agent: str
    text: str
    id: str
    message: UserMessageInfo
    def __init__(self, kind: _Optional[str] = ..., at: _Optional[float] = ..., agent: _Optional[str] = ..., text: _Optional[str] = ..., id: _Optional[str] = ..., message: _Optional[_Union[UserMessageInfo, _Mapping]] = ...) -> None: ...

class Undone(_message.Message):
    __slots__ = ("number", "agent", "sender", "run_id", "tool", "at", "cwd", "paths", "diff", "dry_run", "by")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    number: int
    agent: str
    sender: str
    run_id: str
    tool: str
    at: float
    cwd: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    diff: str
    dry_run: bool
    by: str
    def __init__(self, number: _Optional[int] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., run_id: _Optional[str] = ..., tool: _Optional[str] = ..., at: _Optional[float] = ..., cwd: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., diff: _Optional[str] = ..., dry_run: _Optional[bool] = ..., by: _Optional[str] = ...) -> None: ...

class Trusted(_message.Message):
    __slots__ = ("taint",)
    TAINT_FIELD_NUMBER: _ClassVar[int]
    taint: str
    def __init__(self, taint: _Optional[str] = ...) -> None: ...

class WorkingDirectory(_message.Message):
    __slots__ = ("cwd", "is_own", "is_missing", "instructions", "instructions_off_for_agent")
    CWD_FIELD_NUMBER: _ClassVar[int]
    IS_OWN_FIELD_NUMBER: _ClassVar[int]
    IS_MISSING_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_OFF_FOR_AGENT_FIELD_NUMBER: _ClassVar[int]
    cwd: str
    is_own: bool
    is_missing: bool
    instructions: bool
    instructions_off_for_agent: bool
    def __init__(self, cwd: _Optional[str] = ..., is_own: _Optional[bool] = ..., is_missing: _Optional[bool] = ..., instructions: _Optional[bool] = ..., instructions_off_for_agent: _Optional[bool] = ...) -> None: ...

class SecretSet(_message.Message):
    __slots__ = ("name", "replaced", "scope")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    replaced: bool
    scope: SecretScope
    def __init__(self, name: _Optional[str] = ..., replaced: _Optional[bool] = ..., scope: _Optional[_Union[SecretScope, _Mapping]] = ...) -> None: ...

class SecretInfo(_message.Message):
    __slots__ = ("name", "created_at", "updated_at", "uses", "used_at", "owner", "scope", "unreadable")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    USED_AT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_at: float
    updated_at: float
    uses: int
    used_at: float
    owner: str
    scope: SecretScope
    unreadable: bool
    def __init__(self, name: _Optional[str] = ..., created_at: _Optional[float] = ..., updated_at: _Optional[float] = ..., uses: _Optional[int] = ..., used_at: _Optional[float] = ..., owner: _Optional[str] = ..., scope: _Optional[_Union[SecretScope, _Mapping]] = ..., unreadable: _Optional[bool] = ...) -> None: ...

class SecretList(_message.Message):
    __slots__ = ("secrets", "key")
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    secrets: _containers.RepeatedCompositeFieldContainer[SecretInfo]
    key: str
    def __init__(self, secrets: _Optional[_Iterable[_Union[SecretInfo, _Mapping]]] = ..., key: _Optional[str] = ...) -> None: ...

class SecretUseInfo(_message.Message):
    __slots__ = ("name", "action", "agent", "sender", "run", "tool", "at", "owner")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    action: str
    agent: str
    sender: str
    run: str
    tool: str
    at: float
    owner: str
    def __init__(self, name: _Optional[str] = ..., action: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., run: _Optional[str] = ..., tool: _Optional[str] = ..., at: _Optional[float] = ..., owner: _Optional[str] = ...) -> None: ...

class SecretAudit(_message.Message):
    __slots__ = ("uses",)
    USES_FIELD_NUMBER: _ClassVar[int]
    uses: _containers.RepeatedCompositeFieldContainer[SecretUseInfo]
    def __init__(self, uses: _Optional[_Iterable[_Union[SecretUseInfo, _Mapping]]] = ...) -> None: ...

class McpToolInfo(_message.Message):
    __slots__ = ("tool", "name", "description", "state", "reason", "safety", "digest", "text", "approved_text")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SAFETY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    APPROVED_TEXT_FIELD_NUMBER: _ClassVar[int]
    tool: str
    name: str
    description: str
    state: str
    reason: str
    safety: str
    digest: str
    text: str
    approved_text: str
    def __init__(self, tool: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., safety: _Optional[str] = ..., digest: _Optional[str] = ..., text: _Optional[str] = ..., approved_text: _Optional[str] = ...) -> None: ...

class McpServerInfo(_message.Message):
    __slots__ = ("name", "target", "enabled", "problem", "tools", "sandbox")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    name: str
    target: str
    enabled: bool
    problem: str
    tools: _containers.RepeatedCompositeFieldContainer[McpToolInfo]
    sandbox: str
    def __init__(self, name: _Optional[str] = ..., target: _Optional[str] = ..., enabled: _Optional[bool] = ..., problem: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[McpToolInfo, _Mapping]]] = ..., sandbox: _Optional[str] = ...) -> None: ...

class McpList(_message.Message):
    __slots__ = ("servers",)
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[McpServerInfo]
    def __init__(self, servers: _Optional[_Iterable[_Union[McpServerInfo, _Mapping]]] = ...) -> None: ...

class McpApproved(_message.Message):
    __slots__ = ("tools",)
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tools: _Optional[_Iterable[str]] = ...) -> None: ...

class RunInfo(_message.Message):
    __slots__ = ("run_id", "kind", "agent", "sender", "parent", "root_agent", "root_sender", "status", "condition", "reason", "ask_id", "attempt", "grant_state", "waiting_on", "needs_person", "last_action", "idle_seconds", "seconds", "steps", "tokens", "cost", "instruction", "spawn_reason", "allowed_tools", "granted_tools", "cwd", "limits", "created_at", "started_at", "ended_at", "outcome", "error", "limit", "result", "delivery", "position", "chain", "grant_request_id", "grant_attempt", "node", "unread", "messages")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ROOT_AGENT_FIELD_NUMBER: _ClassVar[int]
    ROOT_SENDER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GRANT_STATE_FIELD_NUMBER: _ClassVar[int]
    WAITING_ON_FIELD_NUMBER: _ClassVar[int]
    NEEDS_PERSON_FIELD_NUMBER: _ClassVar[int]
    LAST_ACTION_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    SPAWN_REASON_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_TOOLS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_TOOLS_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    GRANT_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    GRANT_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    kind: str
    agent: str
    sender: str
    parent: str
    root_agent: str
    root_sender: str
    status: str
    condition: str
    reason: str
    ask_id: str
    attempt: int
    grant_state: str
    waiting_on: _containers.RepeatedScalarFieldContainer[str]
    needs_person: bool
    last_action: str
    idle_seconds: float
    seconds: float
    steps: int
    tokens: int
    cost: float
    instruction: str
    spawn_reason: str
    allowed_tools: _containers.RepeatedScalarFieldContainer[str]
    granted_tools: _containers.RepeatedScalarFieldContainer[str]
    cwd: str
    limits: RunLimits
    created_at: float
    started_at: float
    ended_at: float
    outcome: str
    error: str
    limit: str
    result: str
    delivery: str
    position: int
    chain: _containers.RepeatedScalarFieldContainer[str]
    grant_request_id: str
    grant_attempt: int
    node: int
    unread: int
    messages: _containers.RepeatedCompositeFieldContainer[UserMessageInfo]
    def __init__(self, run_id: _Optional[str] = ..., kind: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., parent: _Optional[str] = ..., root_agent: _Optional[str] = ..., root_sender: _Optional[str] = ..., status: _Optional[str] = ..., condition: _Optional[str] = ..., reason: _Optional[str] = ..., ask_id: _Optional[str] = ..., attempt: _Optional[int] = ..., grant_state: _Optional[str] = ..., waiting_on: _Optional[_Iterable[str]] = ..., needs_person: _Optional[bool] = ..., last_action: _Optional[str] = ..., idle_seconds: _Optional[float] = ..., seconds: _Optional[float] = ..., steps: _Optional[int] = ..., tokens: _Optional[int] = ..., cost: _Optional[float] = ..., instruction: _Optional[str] = ..., spawn_reason: _Optional[str] = ..., allowed_tools: _Optional[_Iterable[str]] = ..., granted_tools: _Optional[_Iterable[str]] = ..., cwd: _Optional[str] = ..., limits: _Optional[_Union[RunLimits, _Mapping]] = ..., created_at: _Optional[float] = ..., started_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., outcome: _Optional[str] = ..., error: _Optional[str] = ..., limit: _Optional[str] = ..., result: _Optional[str] = ..., delivery: _Optional[str] = ..., position: _Optional[int] = ..., chain: _Optional[_Iterable[str]] = ..., grant_request_id: _Optional[str] = ..., grant_attempt: _Optional[int] = ..., node: _Optional[int] = ..., unread: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[UserMessageInfo, _Mapping]]] = ...) -> None: ...

class RunList(_message.Message):
    __slots__ = ("runs", "timed_out", "more")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunInfo]
    timed_out: bool
    more: bool
    def __init__(self, runs: _Optional[_Iterable[_Union[RunInfo, _Mapping]]] = ..., timed_out: _Optional[bool] = ..., more: _Optional[bool] = ...) -> None: ...

class Retried(_message.Message):
    __slots__ = ("client_message_id", "run_id")
    CLIENT_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    client_message_id: str
    run_id: str
    def __init__(self, client_message_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class Withdrawn(_message.Message):
    __slots__ = ("run_id", "content", "speaker")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    content: str
    speaker: str
    def __init__(self, run_id: _Optional[str] = ..., content: _Optional[str] = ..., speaker: _Optional[str] = ...) -> None: ...

class JobInfo(_message.Message):
    __slots__ = ("job_id", "agent", "sender", "root_agent", "root_sender", "command", "started_at", "seconds")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    ROOT_AGENT_FIELD_NUMBER: _ClassVar[int]
    ROOT_SENDER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    agent: str
    sender: str
    root_agent: str
    root_sender: str
    command: str
    started_at: float
    seconds: float
    def __init__(self, job_id: _Optional[str] = ..., agent: _Optional[str] = ..., sender: _Optional[str] = ..., root_agent: _Optional[str] = ..., root_sender: _Optional[str] = ..., command: _Optional[str] = ..., started_at: _Optional[float] = ..., seconds: _Optional[float] = ...) -> None: ...

class JobList(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobInfo]
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobInfo, _Mapping]]] = ...) -> None: ...

class TraceEventInfo(_message.Message):
    __slots__ = ("seq", "at", "kind", "agent", "payload", "truncated", "run_id")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: float
    kind: str
    agent: str
    payload: str
    truncated: bool
    run_id: str
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[float] = ..., kind: _Optional[str] = ..., agent: _Optional[str] = ..., payload: _Optional[str] = ..., truncated: _Optional[bool] = ..., run_id: _Optional[str] = ...) -> None: ...

class LedgerEntryInfo(_message.Message):
    __slots__ = ("seq", "at", "type", "payload", "after_event")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    AFTER_EVENT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at: float
    type: str
    payload: str
    after_event: int
    def __init__(self, seq: _Optional[int] = ..., at: _Optional[float] = ..., type: _Optional[str] = ..., payload: _Optional[str] = ..., after_event: _Optional[int] = ...) -> None: ...

class TraceInfo(_message.Message):
    __slots__ = ("run_id", "agent", "key_agent", "sender", "parent", "request", "outcome", "error", "limit", "started_at", "seconds", "steps", "tokens", "cost", "tree_tokens", "tree_cost", "model", "events", "children", "ledger", "left_out", "ledger_snapshot")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    KEY_AGENT_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    TREE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TREE_COST_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LEDGER_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    agent: str
    key_agent: str
    sender: str
    parent: str
    request: str
    outcome: str
    error: str
    limit: str
    started_at: float
    seconds: float
    steps: int
    tokens: int
    cost: float
    tree_tokens: int
    tree_cost: float
    model: str
    events: _containers.RepeatedCompositeFieldContainer[TraceEventInfo]
    children: _containers.RepeatedCompositeFieldContainer[TraceInfo]
    ledger: _containers.RepeatedCompositeFieldContainer[LedgerEntryInfo]
    left_out: int
    ledger_snapshot: str
    def __init__(self, run_id: _Optional[str] = ..., agent: _Optional[str] = ..., key_agent: _Optional[str] = ..., sender: _Optional[str] = ..., parent: _Optional[str] = ..., request: _Optional[str] = ..., outcome: _Optional[str] = ..., error: _Optional[str] = ..., limit: _Optional[str] = ..., started_at: _Optional[float] = ..., seconds: _Optional[float] = ..., steps: _Optional[int] = ..., tokens: _Optional[int] = ..., cost: _Optional[float] = ..., tree_tokens: _Optional[int] = ..., tree_cost: _Optional[float] = ..., model: _Optional[str] = ..., events: _Optional[_Iterable[_Union[TraceEventInfo, _Mapping]]] = ..., children: _Optional[_Iterable[_Union[TraceInfo, _Mapping]]] = ..., ledger: _Optional[_Iterable[_Union[LedgerEntryInfo, _Mapping]]] = ..., left_out: _Optional[int] = ..., ledger_snapshot: _Optional[str] = ...) -> None: ...

class TraceList(_message.Message):
    __slots__ = ("traces",)
    TRACES_FIELD_NUMBER: _ClassVar[int]
    traces: _containers.RepeatedCompositeFieldContainer[TraceInfo]
    def __init__(self, traces: _Optional[_Iterable[_Union[TraceInfo, _Mapping]]] = ...) -> None: ...

class PromptInfo(_message.Message):
    __slots__ = ("run_id", "step", "steps", "provider", "model", "body")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    steps: int
    provider: str
    model: str
    body: bytes
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ..., steps: _Optional[int] = ..., provider: _Optional[str] = ..., model: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class Replayed(_message.Message):
    __slots__ = ("run_id", "model", "steps", "recorded")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    model: str
    steps: _containers.RepeatedCompositeFieldContainer[ReplayedStep]
    recorded: int
    def __init__(self, run_id: _Optional[str] = ..., model: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[ReplayedStep, _Mapping]]] = ..., recorded: _Optional[int] = ...) -> None: ...

class ReplayedStep(_message.Message):
    __slots__ = ("step", "verdict", "expected", "got", "prompt_tokens", "completion_tokens", "cost")
    STEP_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    GOT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    step: int
    verdict: str
    expected: str
    got: str
    prompt_tokens: int
    completion_tokens: int
    cost: float
    def __init__(self, step: _Optional[int] = ..., verdict: _Optional[str] = ..., expected: _Optional[str] = ..., got: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cost: _Optional[float] = ...) -> None: ...

class TraceHealth(_message.Message):
    __slots__ = ("failed", "loops", "timeouts", "leaks", "reroutes")
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LOOPS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    LEAKS_FIELD_NUMBER: _ClassVar[int]
    REROUTES_FIELD_NUMBER: _ClassVar[int]
    failed: _containers.RepeatedCompositeFieldContainer[TraceInfo]
    loops: int
    timeouts: int
    leaks: _containers.RepeatedScalarFieldContainer[str]
    reroutes: int
    def __init__(self, failed: _Optional[_Iterable[_Union[TraceInfo, _Mapping]]] = ..., loops: _Optional[int] = ..., timeouts: _Optional[int] = ..., leaks: _Optional[_Iterable[str]] = ..., reroutes: _Optional[int] = ...) -> None: ...
