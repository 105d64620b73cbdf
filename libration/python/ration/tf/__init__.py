"""TensorFlow's device configuration: `import ration.tf as tf`, then `tf.config` as in TensorFlow."""
from . import config

__all__ = ["config"]
