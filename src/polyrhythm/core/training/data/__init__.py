"""The batches of a worker: the user's data, divided among workers, loaded in order."""
