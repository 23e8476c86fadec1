"""What starts runs by itself: at the times of a schedule, and in the background for an agent."""
