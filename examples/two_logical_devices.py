"""One card as two devices of 2 GiB, so that code for several devices can be tested on a machine with one."""
import ration.tf as tf

gpus = tf.config.list_physical_devices("GPU")
tf.config.set_visible_devices(gpus[:1], "GPU")
tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=2048)] * 2)
for device in tf.config.list_logical_devices("GPU"):
    print(device.name, tf.config.experimental.get_memory_info(device.name)["limit"] >> 20, "MiB")
