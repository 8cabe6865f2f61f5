"""Exchanges that overlap the backward pass, and steps that wait for what arrives late."""
