# Log the memory of each step.
import tensorflow as tf

tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)
for step in range(3):
    tf.config.experimental.reset_memory_stats('GPU:0')
    with tf.device('/GPU:0'):
        activation = tf.zeros([(step + 1) * 100, 1024, 1024], tf.uint8)
        del activation
    info = tf.config.experimental.get_memory_info('GPU:0')
    print('step', step, 'peak', info['peak'] >> 20, 'MiB, now', info['current'] >> 20, 'MiB')
