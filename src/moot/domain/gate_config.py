"""What a person can configure of the gate, as values."""

from dataclasses import dataclass

POLICIES = ("dangerous", "all", "configured", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class InterceptorConfig:
    """When a call is put before its owner. `sensitive_tools` always are, `exempt_tools` never by policy."""

    enabled: bool = True
    policy: str = "dangerous"
    exempt_tools: tuple[str, ...] = ()
    blocked_tools: tuple[str, ...] = ()
    sensitive_tools: tuple[str, ...] = ()
    approval_seconds: float = 86_400.0
    # Nobody is there to ask: what would be asked is refused at once.
    unattended: bool = False
    # Models are told placeholders instead of personal data.
    redact_personal: bool = False
