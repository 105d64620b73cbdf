"""GPU memory in tests (docs/testing.md): `peaks` for pytest; `python -m ration.testing` runs several tests on each GPU."""
