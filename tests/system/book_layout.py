"""Where the fields of a book lie in its file, as the program was built: OFFSET["header.name"], OFFSET["accounts[0].limit"].
Used by tests that change a book behind its back."""
import json
import os
import pathlib
import subprocess

from node_client import BIN

OFFSET = json.loads(subprocess.run([pathlib.Path(os.environ.get("BUILD_TOOLS", BIN)) / "book_offsets"], check=True, capture_output=True, text=True).stdout)
