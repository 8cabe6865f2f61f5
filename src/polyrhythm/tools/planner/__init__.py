"""The planner: it finds the way of training together that suits a model and machines, by a search among candidates in virtual time."""
