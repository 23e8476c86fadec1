"""The sandbox for commands and scripts: mounts, limits, process handling and cleanup. `sandbox` is the entry point."""
