"""TensorFlow 2 by its explicit name: `ration.tf.compat.v2` is the same as `ration.tf`."""
from ... import config, forward

__all__ = ["config"]
__getattr__, __dir__ = forward.to_tensorflow(__name__)
