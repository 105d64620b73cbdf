# 1 GiB for this program, the rest for my colleague.
import tensorflow as tf

gpu = tf.config.list_physical_devices('GPU')[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
print(tf.config.get_logical_device_configuration(gpu)[0].memory_limit)
with tf.device('/GPU:0'):
    table = tf.zeros([900, 1024, 1024], tf.uint8)
print(int(tf.size(table)) >> 20, 'MiB')
