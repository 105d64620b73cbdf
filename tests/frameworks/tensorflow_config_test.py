#!/usr/bin/env python3
"""TensorFlow's device configuration on one, two and four simulated cards: what its own tests of it ask of a card, in words of ours.
Usage: tensorflow_config_test.py PYTHON [unittest options]"""
import sys
import textwrap
import unittest

from case import FrameworkCase

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
        refused(tf.errors.InvalidArgumentError, 'Could not satisfy device specification', on, f'/device:GPU:{cards}')

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
        refused(RuntimeError, 'cannot be modified after', config.set_logical_device_configuration, gpus[-1], [Limit(memory_limit=20)])
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

    def limits_after_growth(gpus):                                       # this order is allowed
        config.experimental.set_memory_growth(gpus[-1], True)
        config.set_logical_device_configuration(gpus[-1], [Limit(memory_limit=10), Limit(memory_limit=10)])
        assert len(starts()) == cards + 1

    def limits_exclude_growth(gpus):
        config.set_logical_device_configuration(gpus[-1], [Limit(memory_limit=10), Limit(memory_limit=10)])
        refused(ValueError, 'Cannot set memory growth on device when virtual devices configured', config.experimental.set_memory_growth, gpus[-1], True)

    def a_cpu_has_none_of_it(gpus):
        cpu = config.list_physical_devices('CPU')[0]
        refused(ValueError, 'Cannot set memory growth on non-GPU', config.experimental.set_memory_growth, cpu, True)
        refused(ValueError, 'Setting memory limit on CPU virtual devices is currently not supported', config.set_logical_device_configuration, cpu, [Limit(memory_limit=10)])
        refused(ValueError, 'Setting memory limit is required for GPU', config.set_logical_device_configuration, gpus[0], [Limit()])
        refused(ValueError, 'Unrecognized device', config.experimental.set_memory_growth, config.PhysicalDevice('/physical_device:GPU:99', 'GPU'), True)

    def several_of_the_cpu(gpus):
        cpu = config.list_physical_devices('CPU')[0]
        config.set_logical_device_configuration(cpu, [Limit(), Limit()])
        assert len(config.list_logical_devices('CPU')) == 2 and len(starts()) == cards
        refused(tf.errors.InvalidArgumentError, 'Could not satisfy device specification', on, '/device:CPU:2')

    def memory_by_device(gpus):
        for i in range(cards):
            before = config.experimental.get_memory_info(f'GPU:{i}')
            with tf.device(f'GPU:{i}'): kept = tf.zeros([100, 1 << 20], tf.uint8)
            now = config.experimental.get_memory_info(f'/device:GPU:{i}')
            assert now['current'] - before['current'] >= 100 << 20 and now['peak'] >= now['current'], (before, now)
            del kept
            config.experimental.reset_memory_stats(f'GPU:{i}')
            after = config.experimental.get_memory_info(f'GPU:{i}')
            assert after['peak'] == after['current'] < 1 << 20, (before, after)
        for device in (f'GPU:{cards}', 'unknown_device', 'GPU:*'):
            for call in (config.experimental.get_memory_info, config.experimental.reset_memory_stats): refused(ValueError, '', call, device)

    def soft_placement_and_policies(gpus):
        assert not config.get_soft_device_placement()
        starts()
        with tf.device('/device:GPU:0'): refused(tf.errors.InvalidArgumentError, '', tf.strings.join, ['a', 'b'])
        for policy in ('silent', 'silent_for_int32', 'warn', 'explicit'):
            config.experimental.set_device_policy(policy)
            assert config.experimental.get_device_policy() == policy
        config.experimental.set_device_policy(None)
        config.set_soft_device_placement(True)
        refused(RuntimeError, 'cannot be modified after', config.threading.set_inter_op_parallelism_threads, 7)

    for scenario in (the_devices, none_of_them, the_last_of_them, logical_devices, growth, growth_of_one_alone, limits_after_growth,
                     limits_exclude_growth, a_cpu_has_none_of_it, several_of_the_cpu, memory_by_device, soft_placement_and_policies):
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


if __name__ == "__main__":
    FrameworkCase.python = sys.argv.pop(1)
    unittest.main(verbosity=2)
