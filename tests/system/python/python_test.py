#!/usr/bin/env python3
"""The Python package on simulated GPUs. The configuration of a process is fixed once, so every case is a process."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import waiting  # noqa: E402, F401

BUILD = pathlib.Path(os.environ["BUILD"])
SOURCE = pathlib.Path(os.environ["SOURCE"])

PRELUDE = """
import sys, warnings
import ration
import ration.tf as tf
from ration.tf.config import PhysicalDevice, LogicalDeviceConfiguration
config, experimental = tf.config, tf.config.experimental
gpus = config.list_physical_devices('GPU')

def raises(kind, text, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except Exception as error:
        assert type(error) is kind, (type(error), error)
        assert str(error) == text[1:] if text[:1] == '=' else text in str(error), str(error)
    else:
        raise AssertionError(f'nothing raised; expected {kind.__name__}: {text}')
"""


class Package(unittest.TestCase):
    LIBRARY = """
            import ctypes, subprocess
            library = ration._native.library
            library.ration_torch_alloc.restype = ctypes.c_void_p
            library.ration_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
            library.ration_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
            def use(mib):
                address = library.ration_torch_alloc(mib << 20, 0, None)
                assert address
                library.ration_torch_free(address, mib << 20, 0, None)
    """

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def python(self, program, node="T4:16GiB:context=64MiB*2", prefix=(), **variables):
        environment = dict(os.environ, PYTHONPATH=str(SOURCE / "libration/python"), PYTHONWARNINGS="default",
                           RATION_SIM_DIR=self.folder.name, RATION_RUNTIME_DIR=self.folder.name, **variables)
        if node is not None and not prefix:
            environment.update(RATION_SIM=node, LD_LIBRARY_PATH=str(BUILD / "sim"))
        done = subprocess.run([*prefix, sys.executable, "-c", PRELUDE + textwrap.dedent(program)], env=environment,
                              capture_output=True, text=True, timeout=120, cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_devices_have_tensorflows_names_and_are_compared_by_value(self):
        self.python("""
            assert gpus == [PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU'),
                            PhysicalDevice(name='/physical_device:GPU:1', device_type='GPU')], gpus
            assert repr(gpus[0]) == "PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')"
            assert config.list_physical_devices()[0].device_type == 'CPU'
            assert config.list_physical_devices('TPU') == []
            assert experimental.list_physical_devices('GPU') == gpus
            experimental.set_memory_growth(gpus[0], True); experimental.set_memory_growth(gpus[1], True)
            assert [d.name for d in config.list_logical_devices('GPU')] == ['/device:GPU:0', '/device:GPU:1']
        """)

    def test_rules_and_texts_are_tensorflows(self):
        self.python("""
            for wrong in ('GPU:0', None, 7, PhysicalDevice('/physical_device:GPU:9', 'GPU')):
                for call in (lambda d: experimental.set_memory_growth(d, True), experimental.get_memory_growth,
                             config.set_visible_devices, config.get_logical_device_configuration):
                    raises(ValueError, f'=Unrecognized device: {wrong!r}', call, wrong)
            cpu = config.list_physical_devices('CPU')[0]
            raises(ValueError, f'=Unrecognized device: {cpu!r}', config.set_visible_devices, cpu, 'GPU')
            raises(ValueError, '=Cannot set memory growth on non-GPU and non-Pluggable devices',
                   experimental.set_memory_growth, cpu, True)
            raises(ValueError, '=Setting memory limit is required for GPU virtual devices',
                   config.set_logical_device_configuration, gpus[0], [LogicalDeviceConfiguration()])
            raises(ValueError, '=Setting memory limit on CPU virtual devices is currently not supported',
                   config.set_logical_device_configuration, cpu, [LogicalDeviceConfiguration(memory_limit=1)])
            assert experimental.get_memory_growth(gpus[0]) is False
            assert config.get_logical_device_configuration(gpus[0]) is None
            two = [experimental.VirtualDeviceConfiguration(memory_limit=64), LogicalDeviceConfiguration(128.5)]
            config.set_logical_device_configuration(gpus[0], two)
            assert experimental.get_virtual_device_configuration(gpus[0]) == two
            raises(ValueError, '=Cannot set memory growth on device when virtual devices configured',
                   experimental.set_memory_growth, gpus[0], True)
            config.set_visible_devices(gpus[0], 'GPU')
            assert config.get_visible_devices('GPU') == gpus[:1]
            assert len(config.list_logical_devices('GPU')) == 2
            config.set_logical_device_configuration(gpus[0], two)
            raises(RuntimeError, '=Virtual devices cannot be modified after being initialized',
                   config.set_logical_device_configuration, gpus[0], two[:1])
            raises(RuntimeError, '=Visible devices cannot be modified after being initialized',
                   config.set_visible_devices, [], 'GPU')
            raises(RuntimeError, '=Physical devices cannot be modified after being initialized',
                   experimental.set_memory_growth, gpus[1], True)
            info = experimental.get_memory_info('GPU:1')
            assert (info['current'], info['peak'], info['limit']) == (0, 0, int(128.5 * 2**20)), info
            raises(ValueError, "=No matching devices found for 'GPU:9'", experimental.get_memory_info, 'GPU:9')
            raises(ValueError, "=Allocator stats not available for device 'CPU:0'", experimental.get_memory_info, 'CPU:0')
            raises(ValueError, "Failed parsing device name: 'x'", experimental.get_memory_info, 'x')
            raises(ValueError, '=device must be a tf.config.PhysicalDevice, but got: GPU:0',
                   experimental.get_device_details, 'GPU:0')
            details = experimental.get_device_details(gpus[0])
            assert details['device_name'] == 'Tesla T4' and details['compute_capability'] == (7, 5)
            assert details['memory_total'] == 16 * 2**30
            assert experimental.get_device_details(cpu) == {}
        """)

    def test_without_a_gpu_nothing_raises(self):
        self.python("""
            assert gpus == [] and ration.setup_gpu() is False and ration.setup_gpu('limit', 1024) is False
            assert config.list_logical_devices('GPU') == []
            assert ration.log_memory_usage() == 'no GPU'
            with ration.MemoryGuard('1GiB'): pass
            assert repr(ration.limit('1GiB')) == '<ration.limit: no GPU, nothing is limited>'
        """, node=None, LD_LIBRARY_PATH="")

    def test_a_name_that_is_one_level_off_is_answered_with_its_place(self):
        self.python("""
            import types
            for installed in (False, True):
                sys.modules['tensorflow'] = None
                if installed:
                    theirs = types.SimpleNamespace(experimental=types.SimpleNamespace(), set_soft_device_placement=print)
                    sys.modules['tensorflow'] = types.SimpleNamespace(config=theirs)
                    raises(AttributeError, 'Did you mean tf.config.set_soft_device_placement?', getattr, experimental, 'set_soft_device_placement')
                for name in ('set_memory_growth', 'set_memory_limit', 'get_memory_info'):
                    raises(AttributeError, f"has no attribute '{name}'. Did you mean tf.config.experimental.{name}?", getattr, config, name)
                try: config.nothing_like_it
                except AttributeError as error: assert 'Did you mean' not in str(error), error
                else: raise AssertionError('raised')
        """)

    def test_a_limit_never_raises_a_logical_device_above_its_own_number(self):
        self.python("""
            experimental.set_memory_limit(gpus[0], '6GiB')
            config.set_logical_device_configuration(gpus[0], [LogicalDeviceConfiguration(2048), LogicalDeviceConfiguration(1024.0)])
            mib = lambda: [experimental.get_memory_info(f'GPU:{number}')['limit'] >> 20 for number in (0, 1)]
            assert mib() == [2048, 1024], mib()
            assert repr(config.get_logical_device_configuration(gpus[0])[0].memory_limit) == '2048'
            experimental.set_memory_limit(gpus[0], '12GiB')
            assert mib() == [2048, 1024], mib()
            for limit, kept in (('6GiB', [2048, 1024]), ('12GiB', [2048, 1024]), ('1536MiB', [1024, 512])):
                ration.limit(limit)
                assert mib() == kept, (limit, mib())
        """)

    def test_a_limit_may_change_at_any_time(self):
        self.python("""
            assert ration.setup_gpu('growth', limit_mb=256, visible_devices=[1]) is True
            assert config.get_visible_devices('GPU') == [gpus[1]]
            assert experimental.get_memory_info('GPU:0')['limit'] == 256 * 2**20
            for limit, mib in ((0.5, 8192), ('6GiB', 6144), (512, 512), ('25%', 4096), (1.0, 16384)):
                experimental.set_memory_limit(gpus[1], limit)
                assert experimental.get_memory_limit(gpus[1]) == mib * 2**20, limit
            for wrong in (0, -1, 0.0, '4096', '50%%', '17GiB', True, 10**9):
                raises(ValueError, '', experimental.set_memory_limit, gpus[1], wrong)
            with ration.limit('1GiB', device=1):
                assert experimental.get_memory_limit(gpus[1]) == 2**30
            assert experimental.get_memory_limit(gpus[1]) == 16 * 2**30
            former = experimental.get_memory_limit(gpus[1])
            with ration.limit('1GiB'): assert experimental.get_memory_limit(gpus[1]) == 1 << 30
            assert experimental.get_memory_limit(gpus[1]) == former
            experimental.set_memory_limit(gpus[1], None)
            assert experimental.get_memory_limit(gpus[1]) is None
            with ration.limit('1GiB', device=1): pass
            assert experimental.get_memory_limit(gpus[1]) is None
            raises(ValueError, 'there is no GPU 7', ration.limit, '1GiB', device=7)
            raises(ValueError, 'there is no GPU 7', ration.setup_gpu, visible_devices=[7])
            raises(ValueError, 'limit_mb', ration.setup_gpu, 'limit')
        """)

    def test_what_is_no_number_of_a_gpu_is_named_with_what_is_one(self):
        self.python("""
            share = ration.share('part', '1GiB')
            class Number:
                def __index__(self): return 1
            calls = {'limit': lambda device: ration.limit('1GiB', device=device), 'share': lambda device: ration.share('x', '1GiB', device),
                     'share.limit': lambda device: share.limit('1GiB', device), 'share.info': share.info, 'workload': ration.workload,
                     'share.trim': lambda device: share.trim(device=device), 'memory_map': ration.memory_map,
                     'setup_gpu': lambda device: ration.setup_gpu(visible_devices=[device]),
                     'fraction': lambda device: __import__('ration.torch').torch.set_per_process_memory_fraction(0.5, device)}
            before = [ration.workload(gpu) for gpu in (0, 1)]
            for name, call in calls.items():
                for wrong in ('0', 'GPU:0', '', b'0', 0.0, 1.5, True, False, [], (0,), gpus[0], -1, -2**31, 1 << 16, 2**32, 2**64):
                    raises(ValueError, f'such as 0 or 1', call, wrong)
                    raises(ValueError, f'there is no GPU {wrong!r}:', call, wrong)
                if name not in ('limit', 'share', 'share.limit', 'fraction'):
                    raises(ValueError, 'there is no GPU None:', call, None)
            raises(ValueError, 'not 0', ration.setup_gpu, visible_devices=0)
            raises(ValueError, "no GPU '0'", ration.setup_gpu, visible_devices='0')
            assert [ration.workload(gpu) for gpu in (0, 1)] == before, 'a wrong number changes no limit'
            ration.limit('2GiB', device=Number())
            assert [ration.workload(Number())['limit'], ration.workload(0)['limit']] == [2 << 30, before[0]['limit']]
        """)

    def test_a_guard_counts_what_the_block_took_at_its_peak(self):
        self.python(self.LIBRARY + """
            ration.setup_gpu('growth')
            with ration.tag('augment'):
                kept = library.ration_torch_alloc(3 << 20, 0, None)
            assert ration.memory_map(0)['tags'] == [{'tag': 'augment', 'bytes': 3 << 20, 'blocks': 1}]
            library.ration_torch_free(kept, 3 << 20, 0, None)
            assert ration.memory_map(0)['tags'] == []
            with ration.MemoryGuard('100MiB') as guard: use(64)
            assert 64 << 20 <= guard.growth <= 100 << 20, guard.growth
            try:
                with ration.MemoryGuard('100MiB', name='augment'): use(160)
            except ration.MemoryLimitExceeded as error:
                assert "'augment' took 160 MiB" in str(error) and error.limit == 100 << 20, error
                assert isinstance(error, MemoryError)
            else:
                raise AssertionError('not caught')
            experimental.trim('GPU:0')
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter('always')
                with ration.MemoryGuard('1MiB', action='warn'): use(64)
            assert len(caught) == 1 and caught[0].category is ResourceWarning
            raises(KeyError, 'own', lambda: [ration.MemoryGuard('1GiB').__enter__(), {}['own']])
            raises(ValueError, 'action', ration.MemoryGuard, '1GiB', action='print')
            raises(ValueError, 'not a size', ration.MemoryGuard, '1024')
            raises(ValueError, "looks like bytes: write '2048GiB'", ration.MemoryGuard, 1 << 41)
            raises(ValueError, 'any device', ration.MemoryGuard, 1 << 61)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter('always')
                assert ration.MemoryGuard(512).max_memory == 512 << 20
            assert "write MemoryGuard('512MiB')" in str(caught[0].message), caught
            assert library.ration_torch_alloc(64 << 30, 0, None) is None and library.ration_torch_alloc(-1, 0, None) is None
        """)

    def test_whoever_asked_to_be_told_may_let_go_before_a_request_is_refused(self):
        self.python(self.LIBRARY + """
            ration.setup_gpu('growth')
            ration.limit('128MiB')   # of which the context takes half
            cache, told = [library.ration_torch_alloc(48 << 20, 0, None)], []
            def let_go(wanted):
                told.append(wanted)
                library.ration_torch_free(cache.pop(), 48 << 20, 0, None)
            handle = ration.on_pressure(let_go)
            use(32)
            assert told == [32 << 20] and cache == [], told
            handle.cancel()
            handle.cancel()
            assert library.ration_torch_alloc(80 << 20, 0, None) is None and len(told) == 1
            raises(TypeError, 'needs a function', ration.on_pressure, None)
            ration.on_pressure(print)   # still there when Python ends
        """)

    def test_jax_is_limited_before_it_starts(self):
        self.python("""
            import os, types
            import ration.jax
            for size in ('4GiB', 0.5, 8192, '75%'):
                ration.jax.limit(size)
                # JAX takes a share of the total that it sees, and under a limit that is the limit.
                assert float(os.environ['XLA_PYTHON_CLIENT_MEM_FRACTION']) == 1, size
                assert os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'] == 'false'
            assert experimental.get_memory_limit(gpus[0]) == 12 << 30
            sys.modules['jax._src.xla_bridge'] = types.SimpleNamespace(backends_are_initialized=lambda: True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter('always')
                ration.jax.limit('2GiB')
            assert len(caught) == 1 and 'JAX has started' in str(caught[0].message)
            assert float(os.environ['XLA_PYTHON_CLIENT_MEM_FRACTION']) == 1
            raises(ValueError, 'not a size', ration.jax.limit, 'much')
        """)
        self.python("import ration.jax\nraises(ValueError, 'no GPU', ration.jax.limit, '1GiB')", node=None)

    def test_pytest_knows_a_marker_for_the_memory_of_a_test(self):
        if importlib.util.find_spec("pytest") is None:
            self.skipTest("pytest is not installed")
        file = pathlib.Path(self.folder.name) / "test_memory.py"
        file.write_text(textwrap.dedent("""
            import ration, pytest
            from ration import _native
            import ctypes
            _native.library.ration_torch_alloc.restype = ctypes.c_void_p
            ration.setup_gpu('growth')
            def take(mib):
                address = _native.library.ration_torch_alloc(ctypes.c_ssize_t(mib << 20), 0, None)
                _native.library.ration_torch_free(ctypes.c_void_p(address), ctypes.c_ssize_t(mib << 20), 0, None)
            @pytest.fixture
            def size(): return 64
            @pytest.mark.gpu_limit_memory("100MiB")
            def test_within(size): take(size)
            @pytest.mark.gpu_limit_memory("100MiB")
            def test_above(size): take(size * 3)
            @pytest.mark.gpu_limit_memory()
            def test_without_a_size(): pass
            def test_unmarked(): take(512)
        """))
        done = self.python(f"import pytest\npytest.main(['-q', '-p', 'ration_pytest', '--strict-markers', '{file}'])")
        self.assertIn("'test_above' took 192 MiB of GPU memory", done.stdout)
        self.assertIn("gpu_limit_memory needs exactly one size", done.stdout)
        self.assertIn("2 failed, 2 passed", done.stdout)

    def test_guards_nest_and_what_is_wrong_leaves_nothing_behind(self):
        self.python(self.LIBRARY + """
            import threading
            ration.setup_gpu('growth')
            with ration.MemoryGuard('1GiB') as outer:
                use(500)
                with ration.MemoryGuard('100MiB') as inner: use(64)
            assert inner.growth == 64 << 20 and outer.growth == 500 << 20, (inner.growth, outer.growth)
            for wrong in (5, 'x' * 257, 'a\\0b'):
                raises(ValueError, '', lambda: ration.tag(wrong).__enter__())
            with ration.tag('x'): pass
            for wrong in (2**44 + 4096, float('inf'), float('nan'), '4GiB\\0junk'):
                raises(ValueError, '', experimental.set_memory_limit, gpus[0], wrong)
            raises(ValueError, 'any device', ration.MemoryGuard, '9' * 400 + 'GiB')
            raises(ValueError, 'begin at 0', ration.Schedule({'x': [(0, '1GiB')]}).at, -1)
            raises(ValueError, 'no GPU', ration.memory_map, 2**32)
            # Cancelled from inside while other threads are in it, or on their way.
            handles = []
            def told(_):
                for handle in handles: handle.cancel()
            for _ in range(200):
                handles = [ration.on_pressure(told) for _ in range(3)]
                threads = [threading.Thread(target=library.ration_torch_alloc, args=(64 << 30, 0, None)) for _ in range(3)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
        """)

    def test_a_schedule_applies_the_limits_of_an_epoch(self):
        self.python("""
            steps = {'generator': [(0, '40%'), (11, '50%')], 'discriminator': [(0, '60%'), (11, '50%')]}
            schedule = ration.Schedule(steps, devices={'generator': gpus[0], 'discriminator': gpus[1]})
            assert schedule.at(0) == {'generator': '40%', 'discriminator': '60%'}
            assert [round(experimental.get_memory_limit(g) * 10 / 2**30) for g in gpus] == [64, 96]
            schedule.at(10)
            assert [round(experimental.get_memory_limit(g) * 10 / 2**30) for g in gpus] == [64, 96]
            schedule.at(11)
            assert [round(experimental.get_memory_limit(g) * 10 / 2**30) for g in gpus] == [80, 80]
            for wrong in ([], [(1, '40%')], [(0, '40%'), (0, '50%')]):
                raises(ValueError, '', ration.Schedule, {'generator': wrong})
        """)

    def test_a_batch_size_is_halved_until_it_fits(self):
        self.python("""
            tried = []
            @ration.find_executable_batch_size(start=64)
            def train(batch_size, rate):
                tried.append(batch_size)
                if batch_size > 16: raise ration.MemoryLimitExceeded('too much')
                return batch_size * rate
            assert train(10) == 160 and tried == [64, 32, 16]
            @ration.find_executable_batch_size
            def never(batch_size): raise ration.MemoryLimitExceeded('too much')
            raises(MemoryError, '=never() does not fit with a batch of 1', never)
            @ration.find_executable_batch_size
            def wrong(batch_size): raise KeyError('x')
            raises(KeyError, 'x', wrong)
        """)

    def test_profiles(self):
        for name, arguments, growth in (("dev", "'dev'", "true"), ("prod", "'prod', '4GiB'", "false"), ("train", "'train'", "false"),
                                        ("test", "'test', '4GiB', devices=4", "true")):
            self.python(f"""
                import os
                assert ration.profile({arguments}) is True
                assert os.environ['TF_FORCE_GPU_ALLOW_GROWTH'] == '{growth}' and os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'] != '{growth}'
                if '{name}' in ('prod', 'test'): assert experimental.get_memory_limit(gpus[0]) == 4 << 30
                if '{name}' == 'test': assert [each.memory_limit for each in config.get_logical_device_configuration(gpus[0])] == [1024] * 4
                raises(ValueError, 'dev', ration.profile, 'fast')
                raises(ValueError, 'needs a limit', ration.profile, 'prod')
                raises(ValueError, 'at least 1', ration.profile, 'test', devices=0)
            """)

    def test_tensorflow_is_told_until_it_has_started(self):
        self.python("""
            import types
            told = []
            class Config(types.SimpleNamespace): pass
            theirs = [types.SimpleNamespace(name='/physical_device:GPU:0'), types.SimpleNamespace(name='/physical_device:GPU:1')]
            started = False
            def tell(name):
                def call(*arguments):
                    if started: raise RuntimeError('Physical devices cannot be modified after being initialized')
                    told.append((name, *arguments))
                return call
            fake = types.ModuleType('tensorflow')
            fake.config = Config(list_physical_devices=lambda: theirs, set_visible_devices=tell('visible'),
                                 LogicalDeviceConfiguration=lambda *a: a, set_logical_device_configuration=tell('logical'),
                                 experimental=Config(set_memory_growth=tell('growth')))
            sys.modules['tensorflow'] = fake
            experimental.set_memory_growth(gpus[0], True)
            config.set_visible_devices(gpus[:1], 'GPU')
            assert told == [('growth', theirs[0], True), ('visible', theirs[:1], 'GPU')], told
            started = True
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter('always')
                experimental.set_memory_growth(gpus[0], False)
            assert len(caught) == 1 and "ration's pool only" in str(caught[0].message), caught
            assert experimental.get_memory_growth(gpus[0]) is False
        """)

    def test_tensorflow_that_is_imported_later_is_told_at_the_end_of_its_import(self):
        package = pathlib.Path(self.folder.name, "tensorflow")
        package.mkdir()
        (package / "__init__.py").write_text(textwrap.dedent("""
            import types
            told, gpus = [], [types.SimpleNamespace(name=f'/physical_device:GPU:{number}') for number in range(2)]
            def tell(name): return lambda *arguments: told.append((name, *arguments))
            config = types.SimpleNamespace(
                list_physical_devices=lambda: gpus, set_visible_devices=tell('visible'), LogicalDeviceConfiguration=lambda *a: a,
                set_logical_device_configuration=tell('logical'), experimental=types.SimpleNamespace(set_memory_growth=tell('growth')))
        """))
        for calls, told in (("ration.profile('test', '4GiB', devices=2)", "('logical', tensorflow.gpus[0], [(2048.0, None, None)] * 2)"),
                            ("ration.setup_gpu('limit', 1024, [0])", "('visible', tensorflow.gpus[:1], 'GPU'), ('logical', tensorflow.gpus[0], [(1024, None, None)])"),
                            ("experimental.set_memory_growth(gpus[1], True); config.set_visible_devices(gpus[:1], 'GPU')",
                             "('growth', tensorflow.gpus[1], True), ('visible', tensorflow.gpus[:1], 'GPU')")):
            with self.subTest(calls=calls):
                self.python(f"""
                    import importlib, importlib.util
                    {calls}
                    assert importlib.util.find_spec('tensorflow') and 'tensorflow' not in sys.modules   # as libraries look for it
                    import tensorflow
                    assert tensorflow.told == [{told}], tensorflow.told
                    assert type(tensorflow.__spec__.loader) is type(importlib.import_module('json').__spec__.loader)
                    assert not any('on_import' in type(finder).__module__ for finder in sys.meta_path)
                    experimental.set_memory_growth(gpus[1], False)
                    assert tensorflow.told[-1] == ('growth', tensorflow.gpus[1], False)
                """)
        # Where it is not installed, nothing is told and its import fails as ever.
        (package / "__init__.py").unlink()
        package.rmdir()
        self.python("""
            assert ration.profile('test') is True
            raises(ModuleNotFoundError, "=No module named 'tensorflow'", __import__, 'tensorflow')
        """)

    def test_the_total_is_the_limit_also_where_the_program_set_it(self):
        self.python("""
            ration.limit('6GiB')
            assert [each['memory_total'] >> 30 for each in ration.get_memory_details()] == [6, 6]
            assert ' used of 6 GiB' in ration.log_memory_usage()
            import os, tempfile
            path = os.path.join(tempfile.mkdtemp(), 'usage.log')
            told = [ration.log_memory_usage(path), ration.log_memory_usage(path)]
            assert open(path).read().splitlines() == '\\n'.join(told).splitlines()
            ration.limit('5GiB', device=1)
            assert [each['memory_total'] >> 30 for each in ration.get_memory_details()] == [6, 5]
            ration.limit('max')
            assert [each['memory_total'] >> 30 for each in ration.get_memory_details()] == [16, 16]
        """)

    def test_pytorch_that_cannot_change_its_allocator_is_told_in_its_own_words(self):
        self.python("""
            import types
            import ration.torch
            def too_late(_): raise RuntimeError("Can't swap an already initialized allocator")
            record = types.SimpleNamespace(set_record_stream_fn=lambda _: None)
            memory = types.SimpleNamespace(CUDAPluggableAllocator=lambda *_: types.SimpleNamespace(allocator=lambda: record), change_current_allocator=too_late)
            torch = sys.modules['torch'] = types.SimpleNamespace(version=types.SimpleNamespace(cuda='13.0'), cuda=types.SimpleNamespace(memory=memory))
            raises(RuntimeError, 'Call ration.torch.use() before the first tensor is on a GPU', ration.torch.use)
            raises(RuntimeError, "ration.limit('6GiB') also limits", ration.torch.use)
            torch.version.cuda = None
            raises(RuntimeError, 'built without CUDA', ration.torch.use)
        """)

    def test_notebooks_and_keras(self):
        self.python("""
            import types
            ration.setup_gpu('growth')
            class Shell:
                def __init__(self): self.magics = {}
                def register_magic_function(self, function, kind, name): self.magics[name] = function
                def run_cell(self, cell): exec(cell)
            shell = Shell()
            ration.load_ipython_extension(shell)
            shell.magics['ration']('limit 4GiB')
            assert experimental.get_memory_limit(gpus[0]) == 4 * 2**30
            shell.magics['ration']('')
            shell.magics['ration_guard']('1GiB', 'x = 1')
            import ration.keras
            callback, logs = ration.keras.Callback('logs'), {}
            callback.on_epoch_end(0, logs); callback.on_epoch_end(1, logs)
            assert logs['gpu0_current'] == 0 and logs['gpu1_limit'] > 0
            assert len(open('logs/gpu_memory.csv').read().splitlines()) == 3
            assert ration.memory_map(0)['bytes_in_use'] == 0 and '<svg' in ration.memory_map(0, 'svg')
        """)

    def test_the_details_of_an_instance_are_its_own_and_not_its_cards(self):
        self.python("""
            import ctypes, os, subprocess
            nvml, card, instance, name = ctypes.CDLL('libnvidia-ml.so.1'), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(96)
            assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)) == 0
            def used_beside(number):
                assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number, ctypes.byref(instance)) == 0
                assert nvml.nvmlDeviceGetUUID(instance, name, 96) == 0
                holder = subprocess.Popen([os.environ['WORKLOAD'], 'hold', '1GiB'], stdout=subprocess.PIPE,
                                          env=dict(os.environ, CUDA_VISIBLE_DEVICES=name.value.decode()))
                assert b'holding' in holder.stdout.readline()
                used = experimental.get_device_details(gpus[0])['memory_used']
                holder.kill()
                holder.communicate()
                return used >> 20
            assert (used_beside(0), used_beside(1)) == (1024 + 64, 0), (used_beside(0), used_beside(1))
        """, node="A100-40:context=64MiB:mig=3g.20gb*2", WORKLOAD=str(BUILD / "bin/ration-workload"))

    def test_under_ration_run_the_device_is_the_slice(self):
        prefix = [BUILD / "bin/ration", "run", "--sim=T4:16GiB:context=64MiB", "--limit", "1GiB", "--"]
        self.python("""
            import ctypes
            assert experimental.get_device_details(gpus[0])['memory_total'] == 2**30
            ration.setup_gpu('growth')
            library = ration._native.library
            library.ration_torch_alloc.restype = ctypes.c_void_p
            library.ration_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
            held = []
            while len(held) < 20 and (address := library.ration_torch_alloc(100 << 20, 0, None)): held.append(address)
            # What is left is the context and the reserve that ration sets (TF_DEVICE_MIN_SYS_MEMORY_IN_MB).
            assert len(held) == (1024 - 64 - 128) // 100, len(held)
        """, prefix=prefix)

    def test_what_the_pool_keeps_goes_to_a_neighbour_who_waits_for_it(self):
        prefix = [BUILD / "bin/ration", "run", "--sim=T4:16GiB:context=64MiB", "--limit", "1GiB", "--on-deny", "wait", "--"]
        self.python(self.LIBRARY + f"""
            ration.setup_gpu('growth')
            use(600)
            assert experimental.get_memory_info('GPU:0')['held'] == 600 << 20
            told = []
            ration.on_pressure(told.append)
            neighbour = subprocess.Popen(['{BUILD}/bin/ration-workload', 'hold', '700MiB'], stdout=subprocess.PIPE, text=True)
            assert neighbour.stdout.readline() == 'holding 700 MiB\\n'
            neighbour.terminate()
            assert neighbour.wait() is not None
            assert set(told) == {{0}}, told
            assert experimental.get_memory_info('GPU:0')['held'] == 0
        """, prefix=prefix)

    def test_the_c_interface_refuses_what_makes_no_sense(self):
        self.python(self.LIBRARY + """
            size, nothing = ctypes.c_size_t, None
            device = ration._native.device(*gpus[0])
            here = ctypes.byref(device)
            value_error, count, address = 1, size(), ctypes.c_void_p()
            unsized = ration._native.MemoryInfo()
            for name, *arguments in (
                    ('list_physical_devices', nothing, nothing, nothing, size(3), ctypes.byref(count)),
                    ('list_physical_devices', nothing, nothing, nothing, size(0), nothing),
                    ('set_visible_devices', nothing, nothing, size(2), nothing),
                    ('set_memory_growth', nothing, nothing, 1), ('get_memory_growth', nothing, here, nothing),
                    ('set_logical_devices', nothing, here, nothing, size(2)),
                    ('get_memory_info', nothing, nothing, nothing), ('get_memory_info', nothing, b'GPU:0', nothing),
                    ('get_memory_info', nothing, b'GPU:0', ctypes.byref(unsized)),
                    ('set_memory_limit_text', nothing, here, nothing), ('get_device_details', nothing, here, nothing),
                    ('allocate', nothing, 0, size(1), size(0), nothing, nothing),
                    ('allocate', nothing, 99, size(1), size(0), nothing, ctypes.byref(address)),
                    ('allocate', nothing, -1, size(1), size(0), nothing, ctypes.byref(address)),
                    ('allocate', nothing, 0, size(1), size(3), nothing, ctypes.byref(address)),
                    ('allocate', nothing, 0, size(-1), size(0), nothing, ctypes.byref(address)),
                    ('deallocate', nothing, 0, ctypes.c_void_p(0x1234), nothing),
                    ('deallocate', nothing, 99, nothing, nothing), ('memory_map', nothing, 0, 0, nothing, size(9999999), ctypes.byref(count)),
                    ('last_refusal', nothing)):
                status = getattr(library, 'ration_' + name)(*arguments)
                assert status == value_error and library.ration_last_error(), (name, arguments, status)
            # An older caller's struct is filled as far as it goes.
            class Short(ctypes.Structure):
                _fields_ = [('size', ctypes.c_uint32), ('reserved', ctypes.c_uint32), ('current', ctypes.c_uint64), ('guard', ctypes.c_uint64)]
            short = Short(size=16, guard=77)
            assert library.ration_get_memory_info(None, b'GPU:0', ctypes.byref(short)) == 0 and short.guard == 77
        """)

    def test_an_idle_pool_gives_back_what_it_keeps(self):
        self.python(self.LIBRARY + """
            ration.setup_gpu('growth')
            use(600)
            import time
            latest = time.monotonic() + 20
            while held := experimental.get_memory_info('GPU:0')['held']: assert time.monotonic() < latest, f'{held >> 20} MiB are kept'
            assert experimental.get_memory_info('GPU:0')['peak'] == 600 << 20
        """, RATION_IDLE_TRIM="1ms")

    def test_a_child_of_fork_is_told_so(self):
        self.python("""
            import ctypes, os
            ration.setup_gpu('growth')
            assert ration._native.library.ration_is_initialized(None) == 0
            config.list_logical_devices()
            child = os.fork()
            if child == 0:
                address = ctypes.c_void_p()
                status = ration._native.library.ration_allocate(None, 0, ctypes.c_size_t(1024), ctypes.c_size_t(0), None, ctypes.byref(address))
                told = ration._native.library.ration_last_error().decode()
                os._exit(0 if status == 2 and 'fork' in told else 1)
            assert os.waitpid(child, 0)[1] == 0
        """)


if __name__ == "__main__":
    unittest.main()
