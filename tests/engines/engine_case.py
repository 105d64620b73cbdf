"""What all tests of engines share. Each is run by the Python that has its engine."""
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", SOURCE / "build/release"))
RATION = str(BUILD / "bin/ration")
LIBRARY = str(BUILD / "lib/libration.so.1")
os.environ.update(BUILD_BIN=str(BUILD / "bin"), SOURCE=str(SOURCE))
os.environ.setdefault("RATION_TEST_PATIENCE", "120")  # Ray and a hub take their time to start
os.environ.setdefault("RATION_TEST_CASE_SECONDS", "900")
sys.path.insert(0, str(SOURCE / "tests/system"))
from node_client import GIB, MIB, PATIENCE, environment_in, free_ports, own_folder, until  # noqa: E402, F401  (for the tests)
