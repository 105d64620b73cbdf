# What takes the memory? A profile of some steps for TensorBoard.
import glob
import tensorflow as tf

tf.config.experimental.set_memory_growth(tf.config.list_physical_devices('GPU')[0], True)
tf.profiler.experimental.start('profile')
with tf.profiler.experimental.Trace('step', step_num=0), tf.device('/GPU:0'):
    kept = tf.zeros([64, 1024, 1024], tf.uint8)
tf.profiler.experimental.stop()
print(len(glob.glob('profile/**/*.xplane.pb', recursive=True)), 'profile')
