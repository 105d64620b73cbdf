#!/usr/bin/env python3
"""Limits from inside: `import ration` in programs that nobody started with `ration run`, on simulated GPUs. Every case is a
process of its own, since a process loads the driver once."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import waiting  # noqa: E402, F401

BUILD = pathlib.Path(os.environ["BUILD"])
SOURCE = pathlib.Path(os.environ["SOURCE"])
RATION = str(BUILD / "bin/ration")
MiB, GiB = 1 << 20, 1 << 30
CONTEXT = 64 * MiB
NODE = "T4:16GiB:context=64MiB*2"

# The driver as a framework uses it: loaded by its name, memory in blocks of 64 MiB until denied.
DRIVER = """
import ctypes, json, os, subprocess, sys, warnings
class Driver:
    def __init__(self, device=0):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0
        assert self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert self.cuda.cuCtxSetCurrent(context) == 0
        self.blocks = []
    def take(self, most=1000):
        taken = 0
        while taken < most:
            block = ctypes.c_uint64()
            if self.cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(64 << 20)) != 0:
                break
            self.blocks.append(block)
            taken += 1
        return taken * 64
    def give(self):
        while self.blocks:
            assert self.cuda.cuMemFree_v2(self.blocks.pop()) == 0
"""


class Inside(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON", "CUDA_"))}
        self.environment = dict(own, PYTHONPATH=str(SOURCE / "libration/python"), RATION_SIM_DIR=self.folder.name,
                                RATION_RUNTIME_DIR=self.folder.name, RATION_SIM=NODE,
                                RATION_LIBRARY=str(BUILD / "lib/libration.so.1"), LD_LIBRARY_PATH=str(BUILD / "sim"))

    def python(self, program, prefix=(), code=0, arguments=(), **variables):
        done = subprocess.run([*prefix, sys.executable, "-c", DRIVER + textwrap.dedent(program), *arguments], capture_output=True,
                              text=True, timeout=120, cwd=self.folder.name, env={**self.environment, **variables})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def ration(self, *words):
        done = subprocess.run([RATION, *words], capture_output=True, text=True, timeout=60, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def peak(self, device=0):
        truth = subprocess.run([str(BUILD / "bin/ration-sim-truth"), "--json"], capture_output=True, text=True, check=True,
                               env=self.environment)
        return json.loads(truth.stdout)["devices"][device]["peak_bytes"]


class FromInside(Inside):
    def test_a_variable_of_a_framework_whose_value_is_none_is_named_once(self):
        told = self.python("""
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter('always')
                import ration
            print(json.dumps([str(each.message) for each in told]))
            try: print(ration.config.list_logical_devices('GPU'))
            except ValueError as error: print(error)
        """, TF_PER_DEVICE_MEMORY_LIMIT_MB="4GB", TF_GPU_HOST_MEM_LIMIT_IN_MB="8192",
                           XLA_PYTHON_CLIENT_MEM_FRACTION="0.5", XLA_CLIENT_MEM_FRACTION="0.9").stdout.splitlines()
        first = ("TF_PER_DEVICE_MEMORY_LIMIT_MB=4GB is not a whole number of MiB, such as 4096: TensorFlow ends the process over it, and "
                 "ration's pool is not made.")
        self.assertEqual(json.loads(told[0]), [first, "XLA_PYTHON_CLIENT_MEM_FRACTION=0.5 and XLA_CLIENT_MEM_FRACTION=0.9 contradict each "
                                               "other: the smaller holds in ration's pool."])
        self.assertEqual(told[1], first)

    def test_a_limit_holds_for_whoever_loads_the_driver_later(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            assert Driver().take() == 1024 - 64
        """)
        self.assertEqual(self.peak(), GiB)

    def test_it_goes_up_and_down_at_any_time(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            driver = Driver()
            assert driver.take() == 960
            ration.limit('2GiB')
            assert driver.take() == 1024
            ration.limit('512MiB')
            assert driver.take() == 0
            driver.give()
            assert driver.take() == 448
            with ration.limit('256MiB'):
                driver.give()
                assert driver.take() == 192
            assert driver.take() == 256
            ration.limit('max')
            assert driver.take() > 15000
        """)

    def test_use_above_a_lowered_limit_is_reported_whole(self):
        self.python("""
            import ration
            driver = Driver() if ration.limit('4GiB') else None
            assert driver.take(48) == 3072
            ration.limit('1GiB')
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            assert driver.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0 and free.value == 0
            first, second = ration.get_memory_details()
            assert first['memory_total'] == 1 << 30 and first['memory_used'] == ration.workload()['used'] >= 3 << 30, first
            assert second['memory_used'] < 1 << 30, second
            assert '3.06 GiB used of 1 GiB' in ration.log_memory_usage(), ration.log_memory_usage()
        """)

    def test_pinned_host_memory_has_its_own(self):
        self.python("""
            import ration
            ration.limit('1GiB', host='64MiB')
            driver = Driver()
            def pin(mib):
                block = ctypes.c_void_p()
                return driver.cuda.cuMemHostAlloc(ctypes.byref(block), ctypes.c_size_t(mib << 20), 0)
            assert [pin(60), pin(8)] == [0, 2]
            with ration.limit(host='128MiB') as raised:
                assert [pin(68), pin(1)] == [0, 2]
                assert [ration.pinned()[key] >> 20 for key in ('used', 'peak', 'limit')] == [128, 128, 128], ration.pinned()
            assert ration.pinned()['limit'] == 64 << 20, 'the former limit is back, and what is pinned stays'
            assert pin(1) == 2
            for wrong in (dict(), dict(host='0GiB'), dict(host='900TiB'), dict(size='900TiB', host='max'), dict(size='512MiB', host='max', device=7)):
                try:
                    ration.limit(**wrong)
                    raise AssertionError(wrong)
                except ValueError:
                    pass
                assert ration.pinned()['limit'] == 64 << 20, wrong
                assert ration.workload()['limit'] == 1 << 30, wrong
            ration.limit(host='max')
            assert pin(1) == 0
            assert ration.workload()['used'] == 64 << 20, 'the context alone'
        """)

    def test_a_former_limit_that_is_no_longer_allowed_does_not_come_back(self):
        done = subprocess.run([RATION, "run", "--name", "lowered", "--limit", "64MiB", "--host-limit", "64MiB", "--", sys.executable, "-c", textwrap.dedent("""
            import subprocess, sys, ration
            ration.limit('50MiB', host='50MiB')
            with ration.limit('20MiB', host='20MiB'):
                subprocess.run([sys.argv[1], 'set', 'lowered', '--limit', '36MiB', '--host-limit', '36MiB', '--yes'], check=True, stdout=subprocess.DEVNULL)
                try: ration.limit('30MiB', host='40MiB')
                except ValueError as error: print(error)
            print(ration.workload()['limit'] >> 20, ration.pinned()['limit'] >> 20)
        """), RATION], capture_output=True, text=True, timeout=120, cwd=self.folder.name, env=self.environment)
        self.assertEqual(done.stdout, "A host limit of 40.0 MiB is more than this workload may have (36.0 MiB).\n36 36\n", done.stderr)

    def test_inside_a_host_limit_the_program_only_lowers_it(self):
        done = subprocess.run([RATION, "run", "--host-limit", "64MiB", "--", sys.executable, "-c", textwrap.dedent("""
            import ration
            ration.limit(host='50%')
            print(ration.pinned()['limit'], ration.pinned()['total'])
            try:
                ration.limit(host='65MiB')
            except ValueError as error:
                print(error)
        """)], capture_output=True, text=True, timeout=120, cwd=self.folder.name, env=self.environment)
        self.assertEqual(done.stdout, f"{32 * MiB} {64 * MiB}\nA host limit of 65.0 MiB is more than this workload may have (64.0 MiB).\n", done.stderr)

    def test_each_device_has_its_own(self):
        self.python("""
            import ration
            ration.limit('30%', device=0)
            ration.limit(0.75, device=1)
            assert [ration.workload(gpu)['limit'] >> 20 for gpu in (0, 1)] == [4914, 12288], ration.workload(0)
            assert Driver(0).take() == 4914 // 64 * 64 - 64
            assert Driver(1).take() == 12288 - 64
        """)

    def test_devices_are_counted_as_the_driver_counts_them(self):
        for visible in ("1", "{uuid}"):
            uuid = json.loads(self.ration("ps", "-o", "json"))["devices"][1]["uuid"]
            self.python("""
                import ration
                ration.limit('1GiB', device=0)
                driver = Driver()
                assert driver.take() == 960
                try: ration.limit('1GiB', device=1)
                except ValueError as error: assert 'there is no GPU 1' in str(error), error
                else: raise AssertionError('set')
            """, CUDA_VISIBLE_DEVICES=visible.format(uuid=uuid))

    def test_the_call_for_a_device_and_the_call_for_the_process_are_one(self):
        self.python("""
            import ration
            gpus = ration.config.list_physical_devices('GPU')
            ration.limit('1GiB')
            assert ration.config.experimental.get_memory_limit(gpus[0]) == 1 << 30
            ration.config.experimental.set_memory_limit(gpus[0], 0.5)
            assert ration.workload()['limit'] == 8 << 30
            ration.config.experimental.set_memory_limit(gpus[0], 0.5)
            assert ration.workload()['limit'] == 8 << 30
            assert Driver().take() == 8192 - 64
            ration.config.experimental.set_memory_limit(gpus[0], None)
            assert ration.workload()['limit'] == 16 << 30
        """)

    def test_the_driver_came_first(self):
        done = self.python("""
            driver = Driver()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter('always')
                import ration
            assert [each.category for each in told] == [RuntimeWarning], told
            assert 'driver is loaded already' in str(told[0].message) and '%ration restart' in str(told[0].message)
            assert not ration.is_governed()
            for function in (lambda: ration.limit('1GiB'), ration.activate,
                             lambda: ration.config.experimental.set_memory_limit(('/physical_device:GPU:0', 'GPU'), 0.5)):
                try: function()
                except RuntimeError as error: assert 'driver is loaded already' in str(error), error
                else: raise AssertionError('silence')
        """)
        self.assertEqual(done.stderr, "")

    def test_a_script_starts_anew(self):
        path = pathlib.Path(self.folder.name, "script.py")
        path.write_text(DRIVER + textwrap.dedent("""
            driver = Driver()
            warnings.simplefilter('ignore')
            import ration
            print(os.getpid(), flush=True)
            ration.reexec('1GiB')
            print(driver.take(), sys.argv[1])
        """))
        done = subprocess.run([sys.executable, str(path), "word"], capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, second, taken, word = done.stdout.split()
        self.assertEqual((first, taken, word), (second, "960", "word"))

    def test_children_share_the_limit(self):
        child = "driver = Driver(); print(driver.take())"
        self.python(f"""
            import ration
            ration.limit('1GiB')
            driver = Driver()
            assert driver.take(8) == 512
            source = {DRIVER + child!r}
            for environment in (None, dict(os.environ)):
                done = subprocess.run([sys.executable, '-c', source], capture_output=True, text=True, env=environment)
                assert done.stdout.strip() == str(1024 - 512 - 2 * 64), done
        """)

    def test_a_child_of_fork_before_the_driver_shares_it_too(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            pid = os.fork()
            if pid == 0:
                os._exit(Driver().take() != 960)
            assert os.waitpid(pid, 0)[1] == 0
            assert Driver().take() == 960
        """)

    def test_inside_a_limit_from_outside(self):
        self.python("""
            import ration
            assert ration.workload()['total'] == 1 << 30
            try: ration.limit('2GiB')
            except ValueError as error: assert 'more than this program was given (1.00 GiB)' in str(error) and 'ration set' in str(error), error
            else: raise AssertionError('raised')
            ration.limit('50%')
            driver = Driver()
            assert driver.take() == 448
            ration.limit('1GiB')
            assert driver.take() == 512
        """, prefix=(RATION, "run", f"--sim={NODE}", "--sim-cuda", "none", "--limit", "1GiB", "--"))
        self.assertEqual(self.peak(), GiB)

    def test_above_the_limit_from_outside_every_call_names_the_remedy(self):
        told = self.python("""
            import ration
            def say(call, *arguments):
                try: call(*arguments)
                except ValueError as error: print(error)
                else: raise AssertionError('raised')
            for looked in (False, True):
                say(ration.limit, '2GiB')
                with ration.MemoryGuard('1GiB'): pass  # looks at the GPUs
            say(ration.setup_gpu, 'limit', 2048)
            say(ration.config.experimental.set_memory_limit, ration.config.list_physical_devices('GPU')[0], 2048)
            try: ration.config.experimental.set_memory_limit(('/physical_device:GPU:9', 'GPU'), '2GiB')
            except ValueError as error: assert 'Unrecognized device' in str(error), error
            assert subprocess.run([sys.argv[1], 'set', 'm', '--limit', '3GiB', '--yes'], stdout=subprocess.DEVNULL).returncode == 0
            ration.limit('2GiB')
            assert ration.workload()['limit'] == 2 << 30, ration.workload()
        """, prefix=(RATION, "run", f"--sim={NODE}", "--sim-cuda", "none", "--name", "m", "--limit", "1GiB", "--"), arguments=[RATION])
        expected = ("A limit of 2.00 GiB is more than this program was given (1.00 GiB). Start it with: ration run --limit 2GiB -- PROGRAM   "
                    "(while it runs: ration set m --limit 2GiB)")
        self.assertEqual(told.stdout.splitlines(), [expected] * 4)

    def test_above_the_limit_of_its_start_a_program_names_its_whole_line(self):
        script = pathlib.Path(self.folder.name) / "my a.py"
        script.write_text("import ration\nration.limit('6GiB')\n")
        run = (RATION, "run", f"--sim={NODE}", "--sim-cuda", "none", "--limit", "4GiB", "--")
        done = subprocess.run([*run, sys.executable, "my a.py"], capture_output=True, text=True, timeout=60, cwd=self.folder.name, env=self.environment)
        self.assertIn(f"than this program was given (4.00 GiB). Start it with: ration run --limit 6GiB -- {sys.executable} 'my a.py'   (while", done.stderr)

    def test_above_the_size_of_the_gpu_the_gpu_is_named(self):
        self.python("""
            import ration
            def said(call, *arguments):
                try: call(*arguments)
                except ValueError as error: return str(error)
            gpus = ration.config.list_physical_devices('GPU')
            for number in (0, 1):
                told = said(ration.limit, '20GiB', number), said(ration.config.experimental.set_memory_limit, gpus[number], '20GiB')
                assert told == (f'A limit of 20.0 GiB is more than GPU {number} has (16.0 GiB).',) * 2, told
        """)

    def test_a_limit_raised_from_outside_reaches_rations_pool(self):
        self.python("""
            import ration
            library = ration._native.library
            library.ration_torch_alloc.restype = ctypes.c_void_p
            library.ration_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
            ration.setup_gpu('growth', limit_mb=512)
            assert not library.ration_torch_alloc(700 << 20, 0, None)
            assert subprocess.run([sys.argv[1], 'set', 'm', '--limit', '3GiB', '--yes'], stdout=subprocess.DEVNULL).returncode == 0
            ration.limit('2GiB')
            assert library.ration_torch_alloc(700 << 20, 0, None)
            assert ration.workload()['limit'] == 2 << 30, ration.workload()
        """, prefix=(RATION, "run", f"--sim={NODE}", "--sim-cuda", "none", "--name", "m", "--limit", "1GiB", "--"), arguments=[RATION])

    def test_what_outsiders_set_and_what_the_program_sets_both_bind(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            driver = Driver()
            command = [os.environ['RATION'], 'set', 'python', '--limit', '512MiB', '--gpu', '0', '--yes']
            book = json.loads(subprocess.run([os.environ['RATION'], 'ps', '-o', 'json'], capture_output=True, text=True).stdout)
            command[2] = book['data'][0]['workload']
            assert subprocess.run(command).returncode == 0
            assert driver.take() == 448
            command[4] = '4GiB'
            assert subprocess.run(command).returncode == 0
            assert driver.take() == 512
        """, RATION=RATION)

    def test_it_is_a_workload_like_others(self):
        running = subprocess.Popen([sys.executable, "-c", DRIVER + textwrap.dedent("""
            import ration
            ration.limit('1GiB')
            driver = Driver()
            driver.take()
            print('there', flush=True)
            sys.stdin.readline()
            sys.exit(7)
        """)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(running.communicate)
        self.assertEqual(running.stdout.readline(), "there\n")
        row = json.loads(self.ration("ps", "-o", "json"))["data"][0]
        self.assertEqual((row["used_bytes"], row["limit_bytes"], row["denials"]), (GiB, GiB, 1))
        self.assertEqual(row["held_back_by"], "the program itself set a lower limit")
        self.assertIn("64.0 MiB more would not fit", self.ration("why"))
        running.communicate("\n")
        self.assertEqual(running.returncode, 7)
        self.assertEqual(json.loads(self.ration("ps", "-o", "json"))["data"], [])

    def test_a_program_that_takes_nothing_leaves_nothing(self):
        self.python("import ration")
        left = [path.name for path in pathlib.Path(self.folder.name).rglob("*") if path.suffix == ".book"]
        self.assertEqual(left, [])

    def test_the_import_starts_nothing(self):
        self.python("""
            import ration
            assert len(os.listdir('/proc/self/task')) == 1
            for line in open('/proc/self/maps'): assert 'release/sim/libcuda' not in line, line
        """)

    def test_what_is_printed_of_an_object_says_its_name_limit_and_gpu(self):
        self.python("""
            import ration
            first = ration.limit('8GiB')
            assert repr(first) == "<ration.limit 8 GiB on GPU 0 (before: none), 8 GiB on GPU 1 (before: none)>", repr(first)
            assert "4 GiB of pinned host memory (before: " in repr(ration.limit(host='4GiB')), repr(ration.limit(host='4GiB'))
            assert "none on GPU 0" in repr(ration.limit('max')) or "16 GiB on GPU 0" in repr(ration.limit('max')), repr(ration.limit('max'))
            ration.limit('8GiB')
            share = ration.share('generator', '50%')
            assert repr(share) == "<ration.share 'generator': 0 B of 4 GiB on GPU 0, 0 B of 4 GiB on GPU 1>", repr(share)
            guard = ration.MemoryGuard('500MiB', name='block')
            assert repr(guard) == "<ration.MemoryGuard 'block': at most 500 MiB, took 0 B>", repr(guard)
            assert repr(ration.Schedule({'generator': [(0, '40%'), (10, '50%')]})) == "<ration.Schedule generator: 40% from epoch 0, 50% from epoch 10>"
            handle = ration.on_pressure(print)
            assert repr(handle).endswith(': called>'), repr(handle)
            handle.cancel()
            assert repr(handle).endswith(': cancelled>'), repr(handle)
        """)

    def test_a_warning_stands_at_the_line_of_the_program(self):
        file = pathlib.Path(self.folder.name) / "mine.py"
        file.write_text("import ration\nration.limit(4096)\nration.share('part', 1024)\nration.tf.config.experimental.get_memory_usage('GPU:0')\n"
                        "with ration.MemoryGuard('1MiB', action='warn') as guard:\n    guard._measurement.look = None\n    guard._measurement.growth, guard._measurement.stop = 1 << 21, lambda: None\n")
        told = self.python(f"import runpy\nrunpy.run_path('{file}')", PYTHONWARNINGS="always", LD_BIND_NOW="1").stderr
        lines = [int(number) for number in re.findall(rf"{re.escape(str(file))}:(\d+): \w+Warning", told)]
        self.assertEqual(lines, [2, 3, 4, 5], told)
        file.write_text("import ration\n")
        wrong = self.python(f"import runpy\nrunpy.run_path('{file}')", PYTHONWARNINGS="always", XLA_PYTHON_CLIENT_MEM_FRACTION="much").stderr
        self.assertIn(f"{file}:1: RuntimeWarning: XLA_PYTHON_CLIENT_MEM_FRACTION", wrong)

    def test_a_machine_without_a_gpu(self):
        del self.environment["RATION_SIM"], self.environment["LD_LIBRARY_PATH"]
        done = self.python("""
            import ration
            assert not ration.is_governed()
            try: ration.activate()
            except RuntimeError as error: print(error)
            ration.limit('1GiB')  # as everything here: a script also runs where there is none
        """)
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, "^E1[0-9]+ ration: ")

    def test_sizes(self):
        self.python("""
            import ration
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter('always')
                ration.limit(2048)
            assert ration.workload()['limit'] == 2 << 30 and "write limit('2048MiB')" in str(told[0].message), told
            for wrong in ('1MiB', '0', '17GiB', '2048', 'much', 0, -1, 1.5e40, True, None, b'1GiB'):
                try: ration.limit(wrong)
                except ValueError: pass
                else: raise AssertionError(wrong)
            assert ration.workload()['limit'] == 2 << 30
        """)

    def test_modules_of_frameworks_are_there_by_name_and_loaded_then(self):
        self.python("""
            import sys, ration
            for name in ("jax", "keras", "ray", "testing", "torch"):
                assert f"ration.{name}" not in sys.modules and name in dir(ration), name
                assert getattr(ration, name).__name__ == f"ration.{name}"
            try: ration.troch
            except AttributeError as error: assert "no attribute 'troch'" in str(error)
            else: raise AssertionError
        """)

    def test_the_help_of_limit_names_every_form_of_a_size(self):
        self.python("""
            import ration
            text = ration.limit.__doc__
            for form in ("'6GiB'", "'50%'", "'50%free'", "'max-1GiB'", "'max'", 'of at least 512 means MiB; the call then warns', 'Returns:', 'with ration.limit('):
                assert form in text, form
            for size, mib in (('50%free', 8192), ('max-1GiB', 15360), ('50%', 8192), (0.5, 8192), ('6GiB', 6144), ('max', 16384)):
                with ration.limit(size, device=0) as limit:
                    assert ration.workload()['limit'] == mib << 20, (size, ration.workload())
                    assert type(limit).__name__ in ration.limit.__annotations__['return'] and not type(limit).__name__.startswith('_')
        """)

    def test_a_size_that_is_none_is_answered_with_the_one_to_write(self):
        self.python("""
            import ration
            gpu = ration.config.list_physical_devices('GPU')[0]
            set_memory_limit = ration.config.experimental.set_memory_limit
            def told(call, *arguments, **named):
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter('always')
                    try: call(*arguments, **named)
                    except ValueError as error: return [str(each.message) for each in warned], str(error)
                return [str(each.message) for each in warned], None
            def set_logical(limit):
                ration.config.set_logical_device_configuration(gpu, [ration.config.LogicalDeviceConfiguration(memory_limit=limit)])
            for call in (ration.limit, lambda size: ration.share('part', size), ration.MemoryGuard, lambda size: set_memory_limit(gpu, size)):
                assert told(call, 4 * 1024**3) == ([], "4294967296 looks like bytes: write '4GiB'"), told(call, 4 * 1024**3)
                assert told(call, 5e9) == ([], "5000000000 looks like bytes: write '4.66GiB'"), told(call, 5e9)
                for size in ('6 GiB', '4 gb'):
                    assert told(call, size) == ([], f"'{size}' is not a size: write '{size.replace(' ', '')}', without a space"), told(call, size)
            for call in (set_logical, lambda limit: ration.setup_gpu('limit', limit_mb=limit)):
                _, error = told(call, '4GiB')
                assert error.endswith("is a number of MiB, such as 4096, not '4GiB'"), error
            # A number that might mean GiB raises, and any other number warns, except in the calls whose unit is TensorFlow's.
            for call in (ration.limit, lambda size: ration.limit(host=size), lambda size: ration.share('part', size), ration.MemoryGuard,
                         lambda size: set_memory_limit(gpu, size)):
                for size in (1, 6, 40.5, 511):
                    assert told(call, size) == ([], f"{size} has no unit: write '{size}GiB' or '{size}MiB'"), told(call, size)
            assert "write limit('512MiB')" in told(ration.limit, 512)[0][0]
            assert "write limit('4096MiB')" in told(ration.limit, 4096)[0][0]
            assert "write share('4096MiB')" in told(ration.share, 'part', 4096)[0][0]
            assert "write MemoryGuard('4096MiB')" in told(ration.MemoryGuard, 4096)[0][0]
            assert told(set_memory_limit, gpu, 4096) == told(ration.setup_gpu, 'growth', limit_mb=4096) == ([], None)
            ration.config.set_logical_device_configuration(gpu, [ration.config.LogicalDeviceConfiguration(memory_limit=4)])
        """)

    def test_every_way_to_take_memory_is_held_as_under_ration_run(self):
        probe = str(BUILD / "bin/ration-workload")
        inside = subprocess.run([probe, "probe", "64", "--inside", "1GiB"], capture_output=True, text=True, env=self.environment)
        outside = subprocess.run([RATION, "run", f"--sim={NODE}", "--sim-cuda", "none", "--gpu", "0,1", "--limit",
                                  "1GiB", "--", probe, "probe", "64"], capture_output=True, text=True, env=self.environment)
        of_children = [line for line in outside.stdout.splitlines() if line.startswith("child-")]
        self.assertEqual((inside.returncode, inside.stderr.count("held under ration run alone")), (0, len(of_children)), inside.stderr)
        self.assertEqual(inside.stdout.splitlines(), [line for line in outside.stdout.splitlines() if line not in of_children])
        self.assertGreater(len(inside.stdout.splitlines()), 50)


class Magics(Inside):
    SHELL = """
class Shell:
    exit_now = False
    def register_magic_function(self, function, kind, name): setattr(self, name, function)
import ration
shell = Shell()
ration.load_ipython_extension(shell)
"""

    def test_a_limit_is_answered_in_the_words_of_ration_set(self):
        told = self.python(self.SHELL + "for size in ('8GiB', '6GiB', 'max'): shell.ration(f'limit {size}')").stdout
        self.assertEqual(told.splitlines(), [f"limit {change} on GPU {gpu}" for change in (
            "16 GiB → 8 GiB", "8 GiB → 6 GiB", "6 GiB → 16 GiB") for gpu in (0, 1)])
        del self.environment["RATION_SIM"], self.environment["LD_LIBRARY_PATH"]
        self.assertEqual(self.python(self.SHELL + "shell.ration('limit 6GiB')").stdout, "no GPU, nothing is limited\n")

    def test_a_kernel_under_a_limit_restarts_under_it(self):
        path = pathlib.Path(self.folder.name, "kernel.py")
        path.write_text(DRIVER + textwrap.dedent("""
            again = os.environ.get("AGAIN") == str(os.getpid())
            if again:
                driver = Driver()      # before the import: the limit holds from the beginning
                print(driver.take(), flush=True)
                sys.exit()
            os.environ["AGAIN"] = str(os.getpid())
        """) + self.SHELL + textwrap.dedent("""
            ration.limit("1GiB")
            assert Driver().take() == 960
            shell.ration("restart 3GiB")
            assert not shell.exit_now
            shell.ration("restart")
            assert shell.exit_now
        """))
        for prefix in ((), (RATION, "run", f"--sim={NODE}", "--sim-cuda", "none", "--limit", "2GiB", "--")):
            done = subprocess.run([*prefix, sys.executable, str(path)], capture_output=True, text=True, timeout=120, env=self.environment)
            self.assertEqual(done.stdout.splitlines(), [
                "This kernel is under a limit already: %ration limit 3GiB changes it.",
                "This kernel starts again under its present limit: run the cells again, from the first cell.", "960"], done.stderr)


class Shares(Inside):
    def test_each_part_has_its_own_limit(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            generator, discriminator = ration.share('generator', '40%'), ration.share('discriminator', '512MiB')
            driver = Driver()
            with generator:
                assert driver.take() == 384, driver.blocks
            with discriminator:
                assert driver.take() == 512
            assert generator.info() == {'used': 384 << 20, 'peak': 384 << 20, 'limit': (1 << 30) * 4 // 10, 'total': 1 << 30}
            assert driver.take() == 64      # of nobody: what the workload has left, less a context
            driver.give()
            assert generator.info()['used'] == discriminator.info()['used'] == 0
        """)

    def test_shares_change_while_they_are_used(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            schedule = ration.Schedule({'generator': [(0, '256MiB'), (10, '512MiB')],
                                        'discriminator': [(0, '640MiB'), (10, '256MiB')]})
            driver = Driver()
            held = {}
            for epoch in range(12):
                schedule.at(epoch)
                for name in ('discriminator', 'generator'):    # who gets less gives back first
                    with ration.share(name):
                        driver.blocks, others = held.setdefault(name, []), driver.blocks
                        if epoch == 11: driver.give()
                        driver.take()
                        now = ration.share(name).info()
                        assert now['used'] == 64 * len(driver.blocks) << 20
                        assert now['used'] <= now['limit'] or epoch == 10, (epoch, name, now)
            assert [len(held[name]) for name in ('generator', 'discriminator')] == [8, 4], held
        """)

    def test_a_share_cannot_be_more_than_the_workload_has(self):
        self.python("""
            import ration
            ration.limit('1GiB')
            part = ration.share('part', '100%')
            driver = Driver()
            with part: assert driver.take() == 960
            assert part.info()['limit'] == 1 << 30
            ration.limit('512MiB')
            assert part.info()['limit'] == 512 << 20
        """)

    def test_they_nest_and_are_a_threads_own(self):
        self.python("""
            import ration, threading
            one, two = ration.share('one', '256MiB'), ration.share('two', '128MiB')
            driver = Driver()
            def helper():
                driver.cuda.cuCtxSetCurrent(context)
                driver.take(1)
            context = ctypes.c_void_p()
            driver.cuda.cuCtxGetCurrent(ctypes.byref(context))
            def in_helper():
                thread = threading.Thread(target=helper); thread.start(); thread.join()
            with one:
                driver.take(1)
                with two:
                    driver.take(1)
                    in_helper()
                in_helper()
            in_helper()
            assert [part.info()['used'] >> 20 for part in (one, two)] == [128, 128], (one.info(), two.info())
            inside = threading.Event(), threading.Event()
            def own():
                driver.cuda.cuCtxSetCurrent(context)
                with one:
                    inside[0].set()
                    inside[1].wait()
                    driver.take(1)
            thread = threading.Thread(target=own); thread.start(); inside[0].wait()
            with two: inside[1].set(); thread.join()
            assert one.info()['used'] == 192 << 20
        """)

    def test_virtual_memory_and_small_blocks(self):
        self.python("""
            import ration
            part = ration.share('part', '8MiB')
            driver = Driver()
            class Properties(ctypes.Structure):
                _fields_ = [('type', ctypes.c_int), ('handles', ctypes.c_int), ('location', ctypes.c_int * 2),
                            ('rest', ctypes.c_uint64 * 4)]
            properties, handle = Properties(1, 0, (1, 0)), ctypes.c_uint64()
            create = lambda mib: driver.cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(mib << 20), ctypes.byref(properties), ctypes.c_uint64(0))
            small = ctypes.c_uint64()
            with part:
                assert create(10) == 2 and create(6) == 0 and create(4) == 2
                assert part.info()['used'] == 6 << 20
                assert driver.cuda.cuMemAlloc_v2(ctypes.byref(small), ctypes.c_size_t(1 << 19)) == 0
                assert part.info()['used'] == 13 << 19
                assert driver.cuda.cuMemAlloc_v2(ctypes.byref(small), ctypes.c_size_t(2 << 20)) == 2
            assert driver.cuda.cuMemRelease(handle) == 0
            assert part.info()['used'] == 1 << 19
        """)

    def test_rations_pool_is_charged_block_by_block(self):
        self.python("""
            import ration
            ration.setup_gpu('growth')
            part = ration.share('part', '10MiB')
            library = ration._native.library
            take = lambda mib: ration._native.call('allocate', None, 0, ctypes.c_size_t(mib << 20), ctypes.c_size_t(0), None, ctypes.byref(out))
            out = ctypes.c_void_p()
            take(4)
            with part:
                take(6)
                kept = ctypes.c_void_p(out.value)
                take(4)
                try: take(1)
                except ration.MemoryLimitExceeded as error:
                    assert "holds 10.0 MiB of its share 10.0 MiB. Raise it: ration.share(NAME, '11MiB')" in str(error), error
                    assert error.limit == 10 << 20
                else: raise AssertionError('granted')
            ration._native.call('deallocate', None, 0, kept, None)
            assert part.info()['used'] == 4 << 20
            with part: take(6)
        """)

    def test_a_denial_names_the_share(self):
        running = subprocess.Popen([sys.executable, "-c", DRIVER + textwrap.dedent("""
            import ration
            driver = Driver()
            with ration.share('generator', '100MiB'): assert driver.take() == 64
            print('there', flush=True)
            sys.stdin.readline()
        """)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(running.communicate)
        self.assertEqual(running.stdout.readline(), "there\n")
        told = self.ration("why")
        self.assertIn("cuMemAlloc in generator: this share of", told)
        self.assertIn("held 64.0 MiB of its limit 100 MiB, and 64.0 MiB more would not fit", told)
        self.assertIn("in the program: ration.share('generator', '128MiB')", told)

    def test_bad_input(self):
        self.python("""
            import ration
            for name in ('', 'x' * 64, 'a\\0b', 5):
                try: ration.share(name, '1GiB')
                except ValueError: pass
                else: raise AssertionError(name)
            for size in ('', '0', 'much', -1, True, '1'):
                try: ration.share('good', size)
                except ValueError: pass
                else: raise AssertionError(size)
            for number in range(62): ration.share(f'part {number}', '1GiB')
            try: ration.share('one too many', '1GiB')
            except ValueError as error: assert 'at most 63' in str(error)
            else: raise AssertionError('made')
        """)


class NotCovered(Inside):
    """What a preload covers and a load from inside does not: docs/limits-of-enforcement.md lists it."""

    def test_the_driver_by_its_path(self):
        taken = {}
        for prefix in ((), (RATION, "run", f"--sim={NODE}", "--sim-cuda", "none", "--limit", "1GiB", "--")):
            done = self.python(f"""
                import ration
                ration.limit('1GiB')
                driver = Driver.__new__(Driver)
                name, ctypes.CDLL = ctypes.CDLL, lambda _: name({str(BUILD / "sim/libcuda.so.1")!r})
                driver.__init__()
                print(driver.take() > 960)
            """, prefix=prefix)
            taken[bool(prefix)] = done.stdout.strip()
        self.assertEqual(taken, {False: "True", True: "False"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
