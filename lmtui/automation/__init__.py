"""What happens by itself: schedules, who may run a job, the folder that tasks are left in, and the scheduler."""
