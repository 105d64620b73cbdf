#!/usr/bin/env python3
"""Stock TensorFlow, as pip installs it, on simulated GPUs and under limits. Run by the Python that has it."""
import pathlib
import subprocess
import textwrap
import unittest

from case import CONTEXT, LIMITS, RATION, SOURCE, FrameworkCase, GiB, MiB


class TensorFlow(FrameworkCase):
    prelude = ("import json, os, sys\nimport tensorflow as tf\n"
               "gpus = tf.config.list_physical_devices('GPU')\n"
               "def take(mib, device='/GPU:0'):\n"
               "    with tf.device(device): return tf.zeros([mib, 1 << 20], tf.uint8)\n")

    def held(self, node="T4:16GiB"):
        return self.truth(node)["devices"][0]["peak_bytes"]

    def test_devices_and_details(self):
        seen = self.run_program("""
            details = tf.config.experimental.get_device_details(gpus[0])
            print(json.dumps([[gpu.name for gpu in gpus], details['device_name'], details['compute_capability']]))
        """)
        self.assertEqual(seen, [["/physical_device:GPU:0"], "Tesla T4", [7, 5]])

    def test_contents_are_true(self):
        self.run_program("""
            x = tf.constant(list(range(1000)))
            with tf.device('/GPU:0'): y = tf.identity(tf.constant(x.numpy(), tf.float32))
            assert 'GPU:0' in y.device and y.numpy().tolist() == [float(n) for n in range(1000)]
        """)

    def test_the_default_takes_nearly_all_of_the_limit(self):
        self.run_program("tf.zeros([1])", options=("--framework-hints", "off"))
        self.assertGreater(self.held(), 4 * GiB - CONTEXT - 1100 * MiB)  # less what it leaves to the system
        self.assertLessEqual(self.held(), 4 * GiB)

    def test_nearly_all_of_the_limit_is_for_tensors(self):
        """TensorFlow leaves a reserve of what it sees; under a limit the rest of the card is that reserve."""
        count = "kept = []\ntry:\n    while True: kept.append(take(64))\nexcept tf.errors.ResourceExhaustedError: print(len(kept) * 64)"
        self.assertGreaterEqual(self.run_program(count, limit="3GiB"), 2752)
        self.assertLessEqual(self.held(), 3 * GiB)
        self.assertLess(self.run_program(count, limit="3GiB", options=("--framework-hints", "off")), 2048)
        self.assertLess(self.run_program(count, limit="3GiB", TF_DEVICE_MIN_SYS_MEMORY_IN_MB="1000"), 2048)

    def test_a_session_keeps_the_share_that_it_gives_itself(self):
        """Of the limit, which is the size of the card to TensorFlow. TensorFlow ignores a share beside the reserve that ration sets."""
        session = """
            tf1 = tf.compat.v1
            tf1.disable_eager_execution()
            size = tf1.placeholder(tf.int32, [])
            with tf.device('/GPU:0'): filled = tf.fill([size, 1024, 1024], tf.constant(1, tf.uint8))
            options = tf1.GPUOptions(per_process_gpu_memory_fraction=0.25)
            def fits(session, mib):
                try: return session.run(tf.shape(filled), {size: mib})[0] == mib
                except tf.errors.ResourceExhaustedError: return False
            session = tf1.%s(config=tf1.ConfigProto(gpu_options=options))
            print(json.dumps([bool(fits(session, mib)) for mib in (900, 1100)]))
        """
        for kind in ("Session", "InteractiveSession"):
            for options, beginning in ((("--framework-hints", "off"), ""), ((), "import ration")):
                with self.subTest(kind=kind, beginning=beginning):
                    self.assertEqual(self.run_program(beginning + "\n" + textwrap.dedent(session % kind), options=options, PYTHONPATH=str(SOURCE / "libration/python")), [True, False])

    def test_growth_takes_what_is_used(self):
        self.run_program("tf.config.experimental.set_memory_growth(gpus[0], True)\ntake(64)",
                         options=("--framework-hints", "off"))
        self.assertLess(self.held(), 600 * MiB)

    def test_ration_makes_it_grow_unless_told_otherwise(self):
        self.run_program("take(64)")
        self.assertLess(self.held(), 600 * MiB)

    def test_growth_by_its_variable(self):
        self.run_program("take(64)", options=("--framework-hints", "off"), TF_FORCE_GPU_ALLOW_GROWTH="true")
        self.assertLess(self.held(), 600 * MiB)

    def test_its_own_limit_of_a_device_bounds_each_region_and_not_their_sum(self):
        """What the runner of `ration.testing` is for; and a value that is none ends TensorFlow."""
        self.run_program("kept = [take(200), take(200)]", TF_PER_DEVICE_MEMORY_LIMIT_MB="300")
        self.assertGreater(self.held(), 400 * MiB)
        self.assertIn("Failed to parse the env-var", self.run_program("take(1)", code=134, TF_PER_DEVICE_MEMORY_LIMIT_MB="4GB",
                                                                       TF_CPP_MIN_LOG_LEVEL="0"))

    def test_logical_devices_with_limits(self):
        self.run_program("""
            tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=512),
                                                                 tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
            assert [gpu.name for gpu in tf.config.list_logical_devices('GPU')] == ['/device:GPU:0', '/device:GPU:1']
            kept = take(900, '/GPU:1')
            try: take(600, '/GPU:0')
            except tf.errors.ResourceExhaustedError: pass
            else: raise AssertionError('granted')
            take(400, '/GPU:0')
        """)

    def test_a_gpu_that_was_not_granted_is_unavailable_and_nothing_waits(self):
        """TensorFlow makes a context on every GPU that it sees, whether it is used or not."""
        self.prelude = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\n" + self.prelude
        told = self.run_program("""
            assert len(gpus) == 2
            try: take(64)
            except RuntimeError as error: print(json.dumps(str(error)))
        """, node="T4:16GiB*2", options=("--gpu", "0"))
        self.assertIn("CUDA_ERROR_DEVICE_UNAVAILABLE", told)

    def test_visible_devices(self):
        self.run_program("""
            tf.config.set_visible_devices(gpus[1:], 'GPU')
            assert len(tf.config.list_logical_devices('GPU')) == 1
            tf.zeros([1])
        """, node="T4:16GiB*2", options=("--gpu", "0,1"))
        devices = self.truth("T4:16GiB*2")["devices"]
        self.assertLessEqual(devices[0]["peak_bytes"], CONTEXT)
        self.assertGreater(devices[1]["peak_bytes"], CONTEXT + MiB)

    def test_memory_info_and_reset(self):
        self.run_program("""
            kept = take(100)
            info = tf.config.experimental.get_memory_info('GPU:0')
            assert 100 << 20 <= info['current'] < 140 << 20, info
            more = take(200)
            del more
            info = tf.config.experimental.get_memory_info('GPU:0')
            assert info['peak'] >= 300 << 20 and info['current'] < 140 << 20, info
            tf.config.experimental.reset_memory_stats('GPU:0')
            assert tf.config.experimental.get_memory_info('GPU:0')['peak'] < 140 << 20
        """)

    def test_out_of_memory_and_on(self):
        text = self.run_program("""
            try: take(5000)
            except tf.errors.ResourceExhaustedError as error: text = str(error)
            else: raise AssertionError('granted')
            take(1000)
            print(json.dumps(text))
        """)
        self.assertIn("OOM when allocating tensor with shape[5000,1048576]", text)

    def test_a_dump_of_its_allocator_becomes_a_recording(self):
        used = self.run_program("""
            kept = [take(10 * (i + 1)) for i in range(5)]
            try: take(5000)
            except tf.errors.ResourceExhaustedError: pass
            print(tf.config.experimental.get_memory_info('GPU:0')['current'])
        """, TF_BFC_MEMORY_DUMP="dump", TF_FORCE_GPU_ALLOW_GROWTH="true")
        dump = sorted(pathlib.Path(self.folder.name).glob("dump_*"))[-1]
        (held,) = (found := self.imported(dump.name))["held"]
        asked = sum(group["total_bytes"] for group in found["never_freed"])
        self.assertTrue(150 * MiB <= asked < 151 * MiB and asked <= used <= held["bytes"], (asked, used, held))
        self.assertEqual([part["use"] for part in held["parts"]], ["pools"])

    def test_its_other_allocator(self):
        self.run_program("""
            kept = [take(100) for _ in range(10)]
            try: take(4000)
            except tf.errors.ResourceExhaustedError: pass
            else: raise AssertionError('granted')
        """, TF_GPU_ALLOCATOR="cuda_malloc_async")
        self.assertLessEqual(self.held(), 4 * GiB)

    def test_a_small_model_trains_to_its_end(self):
        """As installed: Keras compiles with XLA, whose command buffers are CUDA graphs."""
        self.run_program("""
            model = tf.keras.Sequential([
                tf.keras.layers.Input([16, 16, 3]), tf.keras.layers.Conv2D(8, 3, activation='relu'),
                tf.keras.layers.BatchNormalization(), tf.keras.layers.MaxPool2D(), tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(32, activation='relu'), tf.keras.layers.Dropout(0.1), tf.keras.layers.Dense(10)])
            model.compile('adam', tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            history = model.fit(tf.random.normal([256, 16, 16, 3]), tf.zeros([256], tf.int32), epochs=2, verbose=0)
            assert len(history.history['loss']) == 2
            assert model.predict(tf.zeros([4, 16, 16, 3]), verbose=0).shape == (4, 10)
        """)

    def test_compiled_functions_stay_within_every_limit(self):
        self.compiled_functions_stay_within(LIMITS, """
            def nth(n): tf.function(lambda a: tf.reduce_sum(tf.nn.relu(tf.matmul(a, a)) + n), jit_compile=True)(tf.zeros([8 + n, 8 + n]))
        """, "tf.errors.ResourceExhaustedError")

    def test_keras_stays_within_every_limit(self):
        """As installed: each batch size is compiled by XLA."""
        self.compiled_functions_stay_within(LIMITS, """
            model = tf.keras.Sequential([tf.keras.layers.Input([32]), tf.keras.layers.Dense(64, activation='relu'), tf.keras.layers.Dense(8)])
            model.compile('sgd', 'mse')
            def nth(n): model.predict_on_batch(tf.zeros([1 + n, 32]))
        """, "tf.errors.ResourceExhaustedError")

    def test_a_compiled_function(self):
        self.run_program("""
            multiply = tf.function(lambda a, b: tf.reduce_sum(tf.nn.relu(tf.matmul(a, b))), jit_compile=True)
            with tf.device('/GPU:0'):
                for _ in range(5): multiply(tf.zeros([64, 64]), tf.zeros([64, 64])).numpy()
        """)

    def test_mirrored_strategy_over_two_cards(self):
        self.run_program("""
            strategy = tf.distribute.MirroredStrategy()
            assert strategy.num_replicas_in_sync == 2
            with strategy.scope():
                model = tf.keras.Sequential([tf.keras.layers.Input([8]), tf.keras.layers.Dense(4)])
                model.compile('sgd', 'mse')
            model.fit(tf.random.normal([64, 8]), tf.zeros([64, 4]), epochs=1, batch_size=16, verbose=0)
        """, node="T4:16GiB*2", options=("--gpu", "0,1"))

    def test_two_programs_in_one_limit(self):
        first = self.start("""
            kept = take(1500)
            print('held', flush=True)
            sys.stdin.readline()
        """, options=("--name", "one"))
        self.addCleanup(first.communicate)
        self.assertEqual(first.stdout.readline(), "held\n")
        self.run_program("kept = take(1500)", options=("--name", "two"))
        done = subprocess.run([RATION, "ps", "-o", "json"], env={**self.environment, "RATION_SIM": "T4:16GiB"}, capture_output=True, text=True)
        self.assertIn('"one"', done.stdout)


class Mathematics(FrameworkCase):
    """The stand-ins for cuFFT, cuSOLVER and cuSPARSE: TensorFlow loads them, and its operations take their workspaces."""

    prelude = TensorFlow.prelude

    def test_transforms_take_their_workspace(self):
        took = self.run_program("""
            with tf.device('/GPU:0'):
                x = tf.constant([1j] * 1_000_003, tf.complex64)
                tf.config.experimental.reset_memory_stats('GPU:0')
                before = tf.config.experimental.get_memory_info('GPU:0')['current']
                y = tf.signal.fft(x)
                tf.signal.rfft(tf.constant([1.] * 64)); tf.signal.ifft2d(tf.constant([[1j] * 8] * 8, tf.complex64))
            assert 'GPU:0' in y.device
            print(tf.config.experimental.get_memory_info('GPU:0')['peak'] - before)
        """)
        self.assertGreaterEqual(took, 9 * 8 * 1_000_003)

    def test_dense_solvers_and_sparse_products(self):
        self.run_program("""
            with tf.device('/GPU:0'):
                one = tf.constant([[1. if i == j else 0. for i in range(16)] for j in range(16)])
                for work in (tf.linalg.inv, tf.linalg.cholesky, tf.linalg.det, tf.linalg.svd, tf.linalg.eigh, tf.linalg.qr, tf.linalg.lu):
                    for matrix in (one, tf.stack([one] * 3)): work(matrix)
                assert 'GPU:0' in tf.linalg.solve(one, one).device
                sparse = tf.sparse.SparseTensor([[0, 1], [1, 0]], [1., 2], [2, 2])
                assert tf.sparse.sparse_dense_matmul(sparse, tf.ones([2, 3])).shape == (2, 3)
        """)


class Profiler(FrameworkCase):
    prelude = TensorFlow.prelude

    def test_a_profile_has_what_the_device_did(self):
        taken = self.run_program("""
            import glob
            from tensorflow.tsl.profiler.protobuf import xplane_pb2
            tf.config.experimental.set_memory_growth(gpus[0], True)
            tf.profiler.experimental.start('profile')
            with tf.device('/GPU:0'):
                x = tf.random.normal([1024, 1024])
                (tf.matmul(x, x) + 1.0).numpy()
            tf.profiler.experimental.stop()
            file, = glob.glob('profile/**/*.xplane.pb', recursive=True)
            planes = {plane.name: plane for plane in xplane_pb2.XSpace.FromString(open(file, 'rb').read()).planes}
            def events_of(name):
                plane = planes[name]
                def details(event):
                    return {plane.stat_metadata[stat.metadata_id].name: stat.str_value or plane.stat_metadata[stat.ref_value].name for stat in event.stats}
                return [(plane.event_metadata[event.metadata_id].name, details(event)) for line in plane.lines for event in line.events]
            device, host = events_of('/device:GPU:0'), events_of('/host:CPU')
            assert any('AddV2_GPU' in name and 'grid:' in details['kernel_details'] for name, details in device), device
            back = [details['memcpy_details'] for name, details in device if name == 'MemcpyD2H']
            assert any('size:4194304 ' in details for details in back), device
            taken = [int(details['memalloc_details'].split('num_bytes:')[1]) for name, details in host if name == 'cuMemAlloc_v2']
            print(sum(taken))
        """)
        code = self.truth()["devices"][0]["peak_bytes"] - CONTEXT - taken   # no allocation of a profile
        self.assertEqual(code, 2 * MiB, "one granule for the images that were loaded")


if __name__ == "__main__":
    unittest.main(verbosity=2)
