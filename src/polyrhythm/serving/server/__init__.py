"""A server for the plans of a site: the batcher, routes and control loop of the simulator in real time, on Ray Serve."""
