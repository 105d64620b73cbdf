# Force the CPU on a machine with GPUs.
import tensorflow as tf

tf.config.set_visible_devices([], 'GPU')
print(tf.config.get_visible_devices('GPU'), tf.config.list_logical_devices('GPU'))
print(float(tf.reduce_sum(tf.ones([100, 100]))))
