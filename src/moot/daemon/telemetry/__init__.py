"""Telemetry of the daemon: /metrics for Prometheus and traces for OpenTelemetry. Both are off by default."""
