"""TensorFlow with ration's device configuration: `import ration.tf as tf` instead of `import tensorflow as tf`.

`tf.config` governs ration's pool and TensorFlow; every other name is TensorFlow's own.
"""
from . import config, forward

__all__ = ["config"]
__getattr__, __dir__ = forward.to_tensorflow(__name__)
