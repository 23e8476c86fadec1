"""What starts runs by itself: workflows and schedules. Works with multiagent/teammates, which executes the runs."""
