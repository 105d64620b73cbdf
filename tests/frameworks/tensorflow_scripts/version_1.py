# TensorFlow 1 as its scripts import it: it grows up to a twentieth of the GPU, and layers of Keras come by name.
import tensorflow.compat.v1 as tf
from tensorflow.keras.layers import Dense

tf.disable_v2_behavior()
config = tf.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.05
config.gpu_options.allow_growth = True
with tf.device('/GPU:0'):
    size = tf.placeholder(tf.int32, [])
    filled = tf.fill([size, 1024, 1024], tf.constant(1, tf.uint8))
with tf.Session(config=config) as session:
    print(tf.__version__, Dense(2).units, session.run(filled, {size: 128}).shape)
    try:
        session.run(filled, {size: 900})
    except tf.errors.ResourceExhaustedError:
        print('denied beyond a twentieth')
