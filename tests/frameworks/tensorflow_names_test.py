#!/usr/bin/env python3
"""Every public name of `tf.config` and every field of `GPUOptions` of the installed TensorFlow, against docs/tensorflow.md, docs/pool.md and ration's own.
Run by the Python that has it."""
import json
import re
import subprocess
import unittest

from case import SOURCE, FrameworkCase

SPACES = ("config", "config.experimental", "config.threading", "config.optimizer")
WALK = f"""
    import inspect, json, sys
    import ration.tf as tf
    import ration.tf.config.threading
    from ration.tf.config.optimizer import __name__
    assert 'tensorflow' not in sys.modules and 'tensorflow' not in sys.modules['ration.tf'].__dict__
    tf.config.set_soft_device_placement(True)
    assert tf.config.get_soft_device_placement()
    import tensorflow

    def of(root, path):
        for name in path.split('.'): root = getattr(root, name)
        return root
    def parameters(function):
        return [name for name in inspect.signature(function).parameters]
    names, differ = {{}}, []
    for space in {SPACES}:
        for name in (each for each in dir(of(tensorflow, space)) if not each.startswith('_')):
            path = f'{{space}}.{{name}}'
            ours, theirs = of(tf, path), of(tensorflow, path)
            if inspect.ismodule(ours):
                names[path] = 'governed' if getattr(ours, '__all__', None) else 'forwarded'
                continue
            names[path] = 'forwarded' if ours is theirs else 'governed' if ours.__module__.startswith('ration.') else 'unknown'
            if names[path] == 'governed' and parameters(ours) != parameters(theirs): differ.append(path)
            assert name in dir(of(tf, space)), path

    assert tf.__version__ == tensorflow.__version__
    import ration.tf.compat.v1 as tf1, ration.tf.keras.layers as layers
    from ration.tf.keras.layers import Dense
    from ration.tf.python.framework import ops
    assert (Dense, layers.Dense) == (tensorflow.keras.layers.Dense,) * 2 and ops is sys.modules['tensorflow.python.framework.ops']
    assert tf1.config is tf.compat.v1.config is tf.compat.v2.config is tf.config and tf1.Session is tensorflow.compat.v1.Session
    try: import ration.tf.nothing
    except ModuleNotFoundError as error: assert error.name == 'ration.tf.nothing', error
    else: raise AssertionError('a module that nobody has')

    def leaves(descriptor, path=''):
        for field in descriptor.fields:
            if field.message_type is None: yield path + field.name
            else: yield from leaves(field.message_type, f'{{path}}{{field.name}}.')
    fields = list(leaves(tensorflow.compat.v1.GPUOptions.DESCRIPTOR))
    print(json.dumps([names, differ, fields, tensorflow.__version__]))
"""


def rows(page, title):
    """The first two cells of each row of a table in a page of docs, by the first, without its quotes."""
    section = (SOURCE / "docs" / page).read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (\w[^|]*) \|", section, re.MULTILINE))


class Names(FrameworkCase):
    @classmethod
    def setUpClass(cls):
        case = cls("test_every_name_is_in_the_table")
        case.setUp()
        cls.names, cls.differ, cls.fields, cls.version = json.loads(case.run_inside(WALK).splitlines()[-1])
        case.doCleanups()

    def test_every_name_is_in_the_table(self):
        self.assertEqual({name.removeprefix("tf."): way for name, way in rows("tensorflow.md", "Names of `tf.config`").items()}, self.names)
        self.assertGreater(len(self.names), 40)

    def test_governed_functions_take_what_tensorflows_take(self):
        self.assertEqual(self.differ, [])

    def test_every_field_is_in_the_table(self):
        self.assertEqual(sorted(rows("pool.md", "Fields of `GPUOptions`")), sorted(self.fields))
        self.assertEqual(set(rows("pool.md", "Fields of `GPUOptions`").values()), {"governed", "does nothing"})

    def test_ration_has_every_field_and_knows_which_do_nothing(self):
        """By the names in the header, and in the function that tells those that are set."""
        header = (SOURCE / "libration/include/ration/runtime.hpp").read_text()
        declared = set(re.findall(r"^\s+[\w:<>]+ (\w+)(?: = \w+)?;", header[header.index("struct GpuOptions"):header.index("class Runtime")], re.MULTILINE))
        plan = (SOURCE / "libration/runtime/plan.cpp").read_text()
        told = set(re.findall(r'\{"(\w+)",', plan[plan.index("GpuOptions::without_effect"):plan.index("namespace ration::runtime")]))
        for field, way in rows("pool.md", "Fields of `GPUOptions`").items():
            names = field.removeprefix("experimental.").split(".")
            self.assertLessEqual(set(names), declared, field)
            self.assertEqual(names[0] in told, way == "does nothing", field)


class Without(FrameworkCase):
    """A Python that lacks TensorFlow: this one, with its packages left out."""

    def test_the_error_says_what_to_install(self):
        done = subprocess.run([str(self.python), "-S", "-c", "\n".join((
            "import ration", "try: ration.tf.config.set_soft_device_placement(True)", "except AttributeError as error: print(error)",
            "try: from ration.tf.keras.layers import Dense", "except ModuleNotFoundError as error: print(error)",
            "assert not hasattr(ration.config.experimental, 'enable_op_determinism') and not hasattr(ration.tf, 'constant')",
            "ration.config.list_physical_devices('GPU')"))], env=self.inside(), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "ration.tf.config.set_soft_device_placement: ration has no such name and looks for it in TensorFlow, "
                         "which is not installed (pip install tensorflow)\nration.tf.keras: ration has no such module and looks for it in TensorFlow, "
                         "which is not installed (pip install tensorflow)\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
