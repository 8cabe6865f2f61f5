"""The recipe for large minibatches: what a script lacks of it, read from its model and checked by running it."""
