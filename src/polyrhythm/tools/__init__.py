"""The products: the command line, the planner, reports, measurements, pools of runs, and an emulated network."""
