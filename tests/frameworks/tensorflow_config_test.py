#!/usr/bin/env python3
"""TensorFlow's device configuration on one, two and four simulated cards: what its own tests of it ask of a card, in words of ours, and what
each card holds then. Run by the Python that has it."""
import textwrap
import unittest

from case import CODE, CONTEXT, FrameworkCase, GiB, MiB

# Each scenario has a process of its own, forked before TensorFlow has looked at a device: what is set binds a process for ever.
SCENARIOS = """
    import os, traceback, tensorflow as tf
    cards = int(os.environ['CARDS'])
    config, Limit = tf.config, tf.config.LogicalDeviceConfiguration

    def refused(kind, text, call, *arguments):
        try: call(*arguments)
        except kind as error: assert text in str(error), error
        else: raise AssertionError((call, arguments))
    def starts(): return config.list_logical_devices('GPU')
    def on(device):
        with tf.device(device): return tf.constant(1.0).device

    def the_devices(gpus):
        assert [gpu.name for gpu in gpus] == [f'/physical_device:GPU:{i}' for i in range(cards)]
        assert config.get_visible_devices('GPU') == gpus and len(config.list_physical_devices('CPU')) == 1
        for gpu in gpus:
            assert config.experimental.get_device_details(gpu) == {'device_name': 'Tesla T4', 'compute_capability': (7, 5)}
        assert config.experimental.get_device_details(config.list_physical_devices('CPU')[0]) == {}
        assert [on(device.name)[-5:] for device in starts()] == [f'GPU:{i}' for i in range(cards)]
        for name in (f'GPU:{cards - 1}', f'/gpu:{cards - 1}', f'/job:localhost/replica:0/task:0/device:GPU:{cards - 1}'):
            assert on(name)[-5:] == f'GPU:{cards - 1}'
        for number in (cards, 99): refused(tf.errors.InvalidArgumentError, 'Could not satisfy device specification', on, f'/device:GPU:{number}')
        config.set_visible_devices(gpus, 'GPU')                          # as it is already
        refused(RuntimeError, 'cannot be modified after', config.set_visible_devices, gpus[1:], 'GPU')

    def devices_that_do_not_exist(gpus):
        strange = config.PhysicalDevice(f'/physical_device:GPU:{cards}', 'GPU')
        for kind, text, call, *arguments in (
                (ValueError, 'must be one obtained from', config.experimental.get_device_details, strange),
                (ValueError, 'must be a tf.config.PhysicalDevice', config.experimental.get_device_details, 'GPU:0'),
                (ValueError, 'Unrecognized device', config.set_visible_devices, strange),
                (ValueError, 'Unrecognized device', config.set_visible_devices, gpus[0], 'CPU'),
                (ValueError, 'Unrecognized device', config.experimental.get_memory_growth, strange),
                (ValueError, 'Unrecognized device', config.set_logical_device_configuration, strange, [Limit(memory_limit=10)])):
            refused(kind, text, call, *arguments)
        assert len(starts()) == cards                                    # nothing of it has been kept

    def none_of_them(gpus):
        cpu = config.list_physical_devices('CPU')[0]
        config.set_visible_devices(cpu)
        assert config.get_visible_devices('GPU') == [] and starts() == []
        refused(tf.errors.InvalidArgumentError, 'Could not satisfy device specification', on, '/device:GPU:0')
        refused(RuntimeError, 'cannot be modified after', config.set_visible_devices, gpus)
        config.set_visible_devices(cpu)                                  # as it is already

    def the_last_of_them(gpus):
        config.set_visible_devices(gpus[-1], 'GPU')
        assert [device.name for device in starts()] == ['/device:GPU:0']
        refused(tf.errors.InvalidArgumentError, 'Could not satisfy device specification', on, '/device:GPU:1')
        refused(RuntimeError, 'cannot be modified after', config.set_visible_devices, [], 'GPU')

    def logical_devices(gpus):
        assert config.get_logical_device_configuration(gpus[-1]) is None
        config.set_logical_device_configuration(gpus[-1], [Limit(memory_limit=10), Limit(memory_limit=10)])
        assert len(config.get_logical_device_configuration(gpus[-1])) == 2
        assert len(starts()) == cards + 1
        for i in range(cards + 1): on(f'/device:GPU:{i}')
        refused(tf.errors.InvalidArgumentError, 'Could not satisfy device specification', on, f'/device:GPU:{cards + 1}')
        for other in ([20, 20], [10], [10, 10, 10]):
            refused(RuntimeError, 'cannot be modified after', config.set_logical_device_configuration, gpus[-1],
                    [Limit(memory_limit=mib) for mib in other])
        config.set_logical_device_configuration(gpus[-1], [Limit(memory_limit=10), Limit(memory_limit=10)])

    def growth(gpus):
        assert all(config.experimental.get_memory_growth(gpu) is None for gpu in gpus)
        for gpu in gpus: config.experimental.set_memory_growth(gpu, True)
        starts()
        for gpu in gpus: config.experimental.set_memory_growth(gpu, True)
        refused(RuntimeError, 'cannot be modified after', config.experimental.set_memory_growth, gpus[-1], False)

    def growth_of_one_alone(gpus):
        config.experimental.set_memory_growth(gpus[-1], True)
        if cards > 1: refused(ValueError, 'Memory growth cannot differ', starts)
        else: assert len(starts()) == 1

    def growth_of_those_that_are_visible(gpus):
        config.experimental.set_memory_growth(gpus[0], True)
        config.set_visible_devices(gpus[0], 'GPU')
        assert len(starts()) == 1

    def limits_after_growth(gpus):                                       # this order is allowed
        config.experimental.set_memory_growth(gpus[-1], True)
        config.set_logical_device_configuration(gpus[-1], [Limit(memory_limit=10), Limit(memory_limit=10)])
        assert len(starts()) == cards + 1

    def limits_exclude_growth(gpus):
        config.set_logical_device_configuration(gpus[-1], [Limit(memory_limit=10), Limit(memory_limit=10)])
        refused(ValueError, 'Cannot set memory growth on device when virtual devices configured', config.experimental.set_memory_growth, gpus[-1], True)

    def a_limit_below_nothing_is_none(gpus):
        config.set_logical_device_configuration(gpus[-1], [Limit(memory_limit=-5)])
        starts()
        with tf.device(f'/device:GPU:{cards - 1}'): kept = tf.zeros([1000, 1 << 20], tf.uint8)
        assert config.experimental.get_memory_info(f'GPU:{cards - 1}')['current'] >= 1000 << 20

    def no_logical_device_at_all(gpus):
        config.set_logical_device_configuration(gpus[-1], [])
        refused(tf.errors.UnknownError, 'Not enough GPUs to create virtual devices', starts)

    def a_cpu_has_none_of_it(gpus):
        cpu = config.list_physical_devices('CPU')[0]
        refused(ValueError, 'Cannot set memory growth on non-GPU', config.experimental.set_memory_growth, cpu, True)
        refused(ValueError, 'Setting memory limit on CPU virtual devices is currently not supported', config.set_logical_device_configuration, cpu, [Limit(memory_limit=10)])
        refused(ValueError, 'Setting memory limit is required for GPU', config.set_logical_device_configuration, gpus[0], [Limit(memory_limit=10), Limit()])
        assert config.get_logical_device_configuration(gpus[0]) is None
        refused(ValueError, 'Unrecognized device', config.experimental.set_memory_growth, config.PhysicalDevice('/physical_device:GPU:99', 'GPU'), True)

    def several_of_the_cpu(gpus):
        cpu = config.list_physical_devices('CPU')[0]
        config.set_logical_device_configuration(cpu, [Limit(), Limit()])
        assert len(config.list_logical_devices('CPU')) == 2 and len(starts()) == cards
        refused(tf.errors.InvalidArgumentError, 'Could not satisfy device specification', on, '/device:CPU:2')

    def memory_by_device(gpus):
        def all_of_them(): return [config.experimental.get_memory_info(f'GPU:{i}') for i in range(cards)]
        for i in range(cards):
            before, others = all_of_them()[i], all_of_them()
            with tf.device(f'GPU:{i}'): kept = tf.zeros([100, 1 << 20], tf.uint8)
            now = config.experimental.get_memory_info(f'/device:GPU:{i}')
            assert [told for number, told in enumerate(all_of_them()) if number != i] == others[:i] + others[i + 1:]
            assert now['current'] - before['current'] >= 100 << 20 and now['peak'] >= now['current'], (before, now)
            del kept
            config.experimental.reset_memory_stats(f'GPU:{i}')
            after = config.experimental.get_memory_info(f'GPU:{i}')
            assert after['peak'] == after['current'] < 1 << 20, (before, after)
        for device, text in ((f'GPU:{cards}', 'No matching devices found'), ('TPU:0', 'No matching devices found'),
                             ('GPU', 'parsing device name'), ('GPU:CPU', 'parsing device name'), ('GPU:*', '')):
            for call in (config.experimental.get_memory_info, config.experimental.reset_memory_stats): refused(ValueError, text, call, device)

    def soft_placement(gpus):
        def length():                                                    # no card can do this
            with tf.device('/device:GPU:0'): return tf.strings.length('abc')
        assert not config.get_soft_device_placement()
        for call in (length, tf.function(length)): refused(tf.errors.InvalidArgumentError, '', call)
        config.set_soft_device_placement(True)
        for call in (length, tf.function(length)): assert call().numpy() == 3
        assert 'GPU:0' in on(f'/device:GPU:{cards}')
        refused(RuntimeError, 'cannot be modified after', config.threading.set_inter_op_parallelism_threads, 7)

    def policies_for_tensors_of_several_devices(gpus):
        def beside(kind):
            with tf.device('/CPU:0'): here = tf.constant([3], kind)
            with tf.device(f'/GPU:{cards - 1}'): return tf.concat([here, here.gpu(cards - 1)], 0)
        for policy, integers, others in (('silent', True, True), ('silent_for_int32', True, False), ('warn', True, True), ('explicit', False, False)):
            config.experimental.set_device_policy(policy)
            assert config.experimental.get_device_policy() == policy
            for kind, allowed in ((tf.int32, integers), (tf.float32, others)):
                if allowed: assert beside(kind).shape == [2]
                else: refused(tf.errors.InvalidArgumentError, 'Tensors on conflicting devices', beside, kind)
        refused(ValueError, 'policy', config.experimental.set_device_policy, 'loud')
        config.experimental.set_device_policy(None)
        assert config.experimental.get_device_policy() == 'silent'

    for scenario in (the_devices, devices_that_do_not_exist, none_of_them, the_last_of_them, logical_devices, growth, growth_of_one_alone,
                     growth_of_those_that_are_visible, limits_after_growth, limits_exclude_growth,
                     a_limit_below_nothing_is_none, no_logical_device_at_all, a_cpu_has_none_of_it, several_of_the_cpu, memory_by_device,
                     soft_placement, policies_for_tensors_of_several_devices):
        child = os.fork()
        if child == 0:
            try:
                config.set_soft_device_placement(False)                  # what names another device fails
                scenario(config.list_physical_devices('GPU'))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0, scenario.__name__
"""


class Configuration(FrameworkCase):
    def under_ration_run(self, cards):
        self.run_program(SCENARIOS, limit="8GiB", node=f"T4*{cards}" if cards > 1 else "T4", CARDS=str(cards))

    def test_one_card(self):
        self.under_ration_run(1)

    def test_two_cards(self):
        self.under_ration_run(2)

    def test_four_cards(self):
        self.under_ration_run(4)

    def test_two_cards_and_limits_from_inside(self):
        self.run_inside("import ration; ration.limit('8GiB')\n" + textwrap.dedent(SCENARIOS), node="T4*2", CARDS="2")


class Bytes(FrameworkCase):
    """What a configuration makes each card hold, by the simulator's own count."""
    prelude = textwrap.dedent("""
        import os, tensorflow as tf
        os.environ.pop('TF_FORCE_GPU_ALLOW_GROWTH', None)    # what ration sets; here TensorFlow's own default is asked for
        config, Limit, gpus = tf.config, tf.config.LogicalDeviceConfiguration, tf.config.list_physical_devices('GPU')
        def take(mib, device):
            with tf.device(device): return tf.zeros([mib, 1 << 20], tf.uint8)
        def denied(mib, device):
            try: take(mib, device)
            except tf.errors.ResourceExhaustedError: return
            raise AssertionError('granted')
    """)

    def held(self, program, cards, inside=False):
        node, program = f"T4:16GiB*{cards}", textwrap.dedent(program)
        if inside:
            self.run_inside("import ration\nration.limit('4GiB')\n" + self.prelude + program, node=node)
        else:
            self.run_program(program, node=node)
        return [device["peak_bytes"] for device in self.truth(node)["devices"]]

    def nearly_all(self, peak):
        self.assertGreater(peak, 4 * GiB - CONTEXT - 1100 * MiB)    # less what it leaves to the system
        self.assertLessEqual(peak, 4 * GiB)

    def test_no_card_is_touched_where_none_is_visible(self):
        self.run_inside(self.prelude + textwrap.dedent("""
            assert config.experimental.get_device_details(gpus[1])['device_name'] == 'Tesla T4'
            config.set_visible_devices([], 'GPU')
            assert 'CPU:0' in tf.zeros([1000]).device
        """), node="T4:16GiB*2")
        self.assertEqual([device["peak_bytes"] for device in self.truth("T4:16GiB*2")["devices"]], [0, 0])

    def test_two_of_four_keep_their_order_and_the_others_hold_nothing_but_a_context(self):
        """The order in which they are told is not asked for: GPU:0 is the lower one."""
        peaks = self.held("""
            config.set_visible_devices([gpus[3], gpus[1]], 'GPU')
            for gpu in gpus: config.experimental.set_memory_growth(gpu, True)
            assert len(config.list_logical_devices('GPU')) == 2
            kept = take(100, '/GPU:0'), take(700, '/GPU:1')
        """, 4)
        for unused in (0, 2):
            self.assertLessEqual(peaks[unused], CONTEXT)
        for used, mib in ((1, 100), (3, 700)):
            self.assertGreaterEqual(peaks[used], CONTEXT + mib * MiB)
            self.assertLess(peaks[used], CONTEXT + 600 * MiB + mib * MiB)

    def test_logical_devices_have_their_limits_and_the_card_beside_them_all_of_its_own(self):
        """Growth of the other card is asked for, and TensorFlow forgets it where any card has logical devices."""
        for inside in (False, True):
            with self.subTest("from inside" if inside else "ration run"):
                self.setUp()
                peaks = self.held("""
                    config.experimental.set_memory_growth(gpus[0], True)
                    config.set_logical_device_configuration(gpus[1], [Limit(memory_limit=512), Limit(memory_limit=1024)])
                    kept = take(1, '/GPU:0'), take(400, '/GPU:1'), take(900, '/GPU:2')
                    denied(600, '/GPU:1')
                """, 2, inside)
                self.nearly_all(peaks[0])
                self.assertEqual(peaks[1], CONTEXT + CODE + (512 + 1024) * MiB)

    def test_logical_devices_of_more_than_the_limit_share_what_there_is_and_one_of_nothing_has_nothing(self):
        peaks = self.held("""
            config.set_logical_device_configuration(gpus[0], [Limit(memory_limit=3000), Limit(memory_limit=3000)])
            config.set_logical_device_configuration(gpus[1], [Limit(memory_limit=0)])
            kept = take(2900, '/GPU:0'), take(500, '/GPU:1')
            denied(2900, '/GPU:1')
            try: take(1, '/GPU:2')
            except tf.errors.FailedPreconditionError as error: assert 'Failed to allocate scratch buffer' in str(error), error
            else: raise AssertionError('granted')
        """, 2)
        self.nearly_all(peaks[0])
        self.assertEqual(peaks[1], CONTEXT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
