# Try a multi-GPU program on one GPU.
import tensorflow as tf

gpus = tf.config.experimental.list_physical_devices('GPU')
tf.config.experimental.set_virtual_device_configuration(gpus[0], [
    tf.config.experimental.VirtualDeviceConfiguration(memory_limit=512),
    tf.config.experimental.VirtualDeviceConfiguration(memory_limit=1024)])
devices = tf.config.list_logical_devices('GPU')
print([device.name for device in devices])
parts = []
for device, mib in zip(devices, (400, 800)):
    with tf.device(device.name):
        parts.append(tf.zeros([mib, 1024, 1024], tf.uint8))
print([part.device[-5:] for part in parts])
