"""How long tests wait. A test case that takes longer than three times the patience of a poll ends (longer where many programs share a processor): a read of what never
comes would take until ctest's own limit. Importing this is enough."""
import os
import signal
import time
import unittest

PATIENCE = float(os.environ.get("RATION_TEST_PATIENCE", "30"))  # seconds until a condition that is polled counts as never
CASE_SECONDS = int(os.environ.get("RATION_TEST_CASE_SECONDS", 3 * PATIENCE))
run_case = unittest.TestCase.run


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.01)  # the processors are for those it waits for
    raise AssertionError("never: " + what)


def end_case(*_):
    signal.alarm(CASE_SECONDS)  # for what is cleaned up afterwards
    raise AssertionError("the case has not ended by now")


def run(case, result=None):
    signal.signal(signal.SIGALRM, end_case)
    signal.alarm(CASE_SECONDS * (1 + int(os.getloadavg()[0] / os.cpu_count())))
    try:
        return run_case(case, result)
    finally:
        signal.alarm(0)


unittest.TestCase.run = run
