"""Jobs: tasks that run at a time, and the scheduler that runs them."""
