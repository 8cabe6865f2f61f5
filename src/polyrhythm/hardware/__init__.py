"""The machines and the networks that a job runs on, as values: no behaviour of time is here."""
