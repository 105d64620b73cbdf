# TensorFlow waits 10 s at its limit before it raises: not here.
import time
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
config = tf1.ConfigProto()
config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[256])
config.gpu_options.experimental.disallow_retry_on_allocation_failure = True
with tf1.Session(config=config) as session:
    with tf.device('/GPU:0'):
        large = tf.fill([300, 1024, 1024], tf1.placeholder_with_default(tf.constant(0, tf.uint8), []))
    began = time.monotonic()
    try:
        session.run((large + large).op)
    except tf.errors.ResourceExhaustedError:
        print('denied', 'at once' if time.monotonic() - began < 8 else 'after a wait')
