# Nothing configured: what does TensorFlow take?
import tensorflow as tf

print('GPUs:', len(tf.config.list_physical_devices('GPU')))
with tf.device('/GPU:0'):
    x = tf.zeros([1024, 1024])
print(x.device[-5:])
