"""The machines and the networks of a job, as values: the simulator gives them their behaviour in time."""
