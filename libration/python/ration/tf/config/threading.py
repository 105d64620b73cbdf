"""`tf.config.threading`: TensorFlow's own."""
from .. import forward

__getattr__, __dir__ = forward.to_tensorflow(__name__)
