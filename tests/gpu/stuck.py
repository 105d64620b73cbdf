"""Experiments that do not end as they should, for run_on_sim.sh."""
import os
import signal
import subprocess
import sys

from experiments import GIB, Finding, experiment
from experiments.actor import Actor


@experiment(90, "hangs, with a child that hangs, too", "an end after 2 s", 2)
def hangs():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"])
    print("child", child.pid, flush=True)
    signal.pause()


@experiment(91, "crashes", "its signal", 20)
def crashes():
    os.kill(os.getpid(), signal.SIGSEGV)


@experiment(92, "raises", "what it said", 20)
def raises():
    raise RuntimeError("this was not foreseen")


@experiment(93, "comes after them", "runs", 20)
def comes_after():
    return Finding("ran", True)


@experiment(94, "takes longer than is left", "not run", 100000)
def does_not_fit():
    return Finding("ran", False)


@experiment(95, "finds a promise broken", "exit code 1", 20)
def finds_a_promise_broken():
    return Finding("it does not hold", False, broken="this one")


@experiment(96, "has a program under a limit that crashes", "exit code 1", 20)
def has_a_program_that_crashes():
    with Actor(limit=GIB, command=[sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"]) as program:
        program.answer()
