"""What a person can configure of what agents do with their hands, all in one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from moot.domain.files_config import FilesConfig
from moot.domain.gate_config import InterceptorConfig
from moot.domain.learning_config import KnowledgeConfig
from moot.domain.mcp import McpConfig
from moot.domain.memory_config import MemoryConfig
from moot.domain.output_config import OutputConfig
from moot.domain.sandbox_config import SandboxConfig
from moot.domain.skill_config import SkillConfig
from moot.domain.vault_config import VaultConfig
from moot.domain.web_config import WebConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class HandsConfig:
    interceptor: InterceptorConfig = field(default_factory=InterceptorConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    files: FilesConfig = field(default_factory=FilesConfig)
    skills: SkillConfig = field(default_factory=SkillConfig)
    web: WebConfig = field(default_factory=WebConfig)
    vault: VaultConfig = field(default_factory=VaultConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    outputs: OutputConfig = field(default_factory=OutputConfig)
    knowledge: KnowledgeConfig = field(default_factory=KnowledgeConfig)
    mcp: Mapping[str, McpConfig] = field(default_factory=lambda: MappingProxyType({}))
