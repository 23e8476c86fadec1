"""Starts runs without a person: at the times of a schedule, for the steps of workflows, and in the background."""
