"""GPU memory in tests: docs/testing.md. `peaks` is for pytest, `python -m ration.testing` runs several tests a GPU."""
