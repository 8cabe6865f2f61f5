"""The tests of all folders run in turns where that is asked for."""

pytest_plugins = ["turns"]
