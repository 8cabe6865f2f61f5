"""Servers on a hash ring, with replicas of each range."""
