# Use the second GPU of two; the first stays free for others.
import tensorflow as tf

gpus = tf.config.list_physical_devices('GPU')
tf.config.set_visible_devices(gpus[1], 'GPU')
tf.config.experimental.set_memory_growth(gpus[1], True)
with tf.device('/GPU:0'):
    x = tf.zeros([64, 1024, 1024], tf.uint8)
print(len(gpus), [device.name for device in tf.config.list_logical_devices('GPU')], x.device[-5:])
