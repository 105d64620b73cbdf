"""Recordings that a program makes of itself."""
from __future__ import annotations

import atexit
import ctypes
import errno
import os
import shlex
import subprocess
from typing import Optional

import ration_command


def _tell(folder: Optional[bytes]) -> int:
    """Begins a recording in this folder; None ends it. Returns an error of the system, or 0."""
    try:
        function = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD).ration_shim_record
    except (OSError, AttributeError):
        return errno.ENOTSUP
    return int(function(folder))


class record:  # noqa: N801  (users call it as a function, and use it with `with`)
    """A recording of the GPU memory of this process and of the processes that it starts; `ration run --record` records
    a whole run.

        with ration.record('train.rec'):
            train()

        recording = ration.record('train.rec')
        recording.start()
        ...
        recording.stop()                         # or the end of the program

    `ration inspect train.rec` shows the recording, also while it is being made. The recording includes memory that the
    process held at the start, but not the requests for that memory. `ration.mark('epoch 3')` puts a text into the
    recording. Start the recording while no other thread allocates GPU memory.

    Raises (from `start`):
        RuntimeError: this process is not governed, or is recorded already.
        OSError: the folder `FILE.parts` exists or cannot be made, or `FILE` is a folder, a pipe or a device.
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._owner = 0  # the process that records: a child by fork has a copy of this object and must not end the recording

    def start(self) -> "record":
        """Begins the recording. Its events are in the folder `FILE.parts` until stop() makes the file from them."""
        folder = self.path + ".parts"
        if os.path.lexists(self.path) and not os.path.isfile(self.path):
            raise OSError(errno.EINVAL, "not a file, so a recording cannot replace it", self.path)
        if os.path.lexists(folder) and "RATION_RECORD" not in os.environ:  # else the guard returns EBUSY
            raise FileExistsError(errno.EEXIST, f"a recording is being made there, or was cut off; if it was cut off, ration record -o {shlex.quote(self.path)} makes the file", folder)
        error = _tell(os.fsencode(folder))
        if error == errno.ENOTSUP:
            raise RuntimeError("this process is not governed: start it by `ration run`, or call ration.activate() first")
        if error == errno.EBUSY:
            raise RuntimeError("this process is recorded already")
        if error:
            raise OSError(error, os.strerror(error), folder)
        self._owner = os.getpid()
        os.environ["RATION_RECORD"] = folder
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Ends the recording and makes the file. If a process that this process started still runs, makes no file and
        keeps the folder."""
        if self._owner != os.getpid():
            return
        self._owner = 0
        atexit.unregister(self.stop)
        os.environ.pop("RATION_RECORD", None)
        error = _tell(None)
        if error:
            raise OSError(error, os.strerror(error), self.path)
        done = subprocess.run([ration_command.path(), "record", "-o", self.path], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(done.stderr.strip())

    def __enter__(self) -> "record":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
