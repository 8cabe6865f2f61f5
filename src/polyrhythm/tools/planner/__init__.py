"""Which way of training together suits a model and machines: candidates, what they cost in virtual time, and a search among them."""
