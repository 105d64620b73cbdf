"""TensorFlow 1 with ration's device configuration: `import ration.tf.compat.v1 as tf` instead of `import tensorflow.compat.v1 as tf`.

Sessions are TensorFlow's own and obey their `ConfigProto`; the limit of the process also applies.
"""
from ... import config, forward

__all__ = ["config"]
__getattr__, __dir__ = forward.to_tensorflow(__name__)
