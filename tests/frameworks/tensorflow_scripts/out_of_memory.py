# What happens at the limit, and can I go on afterwards?
import tensorflow as tf

gpu = tf.config.list_physical_devices('GPU')[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=512)])
with tf.device('/GPU:0'):
    kept = tf.zeros([400, 1024, 1024], tf.uint8)
    try:
        more = tf.zeros([200, 1024, 1024], tf.uint8)
    except tf.errors.ResourceExhaustedError as error:
        print(type(error).__name__)
    del kept
    print(tf.zeros([300, 1024, 1024], tf.uint8).device[-5:])
