"""Calls every function of nvidia-ml-py on each card and each instance, and prints what they answer, as JSON. Run by a Python that has nvidia-ml-py. `user`:
the calls are made by a user who is not root. The name of a call stands on standard error before it is made, so that a crash names it."""
import ctypes
import inspect
import json
import os
import sys

import pynvml

HELPERS = {"nvmlExceptionClass", "nvmlStructToFriendlyObject", "nvmlFriendlyObjectToStruct"}  # of the module, no calls
STRUCTURES = {
    "nvmlDeviceGetAdaptiveTgpModeInfo_v1": "c_nvmlAdaptiveTgpModeInfo_v1_t",
    "nvmlDeviceGetClkMonStatus": "nvmlClkMonStatus_t",
    "nvmlDeviceGetClockOffsets": "c_nvmlClockOffset_t",
    "nvmlDeviceGetDynamicPstatesInfo": "c_nvmlGpuDynamicPstatesInfo_t",
    "nvmlDeviceGetGpuFabricInfo": "c_nvmlGpuFabricInfo_t",
    "nvmlDeviceGetGpuFabricInfoV": "c_nvmlGpuFabricInfoV_t",
    "nvmlDeviceGetGpuFabricInfo_v4": "c_nvmlGpuFabricInfo_v4_t",
    "nvmlDeviceGetNvLinkInfo": "c_nvmlNvLinkInfo_v2_t",
    "nvmlDeviceGetPciInfoExt": "nvmlPciInfoExt_v1_t",
    "nvmlDeviceGetPlatformInfo": "c_nvmlPlatformInfo_v2_t",
    "nvmlDeviceGetPowerMizerMode_v1": "c_nvmlDevicePowerMizerModes_v1_t",
    "nvmlDeviceGetRemappedRows_v2": "c_nvmlRemappedRowsInfo_v2_t",
    "nvmlDeviceGetThermalSettings": "c_nvmlGpuThermalSettings_t",
    "nvmlDeviceGetVgpuSchedulerLog_v2": "c_nvmlVgpuSchedulerLogInfo_v2_t",
    "nvmlDeviceGetVgpuSchedulerState_v2": "c_nvmlVgpuSchedulerStateInfo_v2_t",
    "nvmlGpuInstanceGetVgpuTypeCreatablePlacements": "c_nvmlVgpuCreatablePlacementInfo_v1_t",
    "nvmlDeviceReadWritePRM_v1": "c_nvmlPRMTLV_v1_t",
    "nvmlDeviceWorkloadPowerProfileGetProfilesInfo": "c_nvmlWorkloadPowerProfileProfilesInfo_v1_t",
}


class Room(ctypes.Structure):
    """Of a function whose structure need not be a certain one: room for the largest."""
    _fields_ = [("version", ctypes.c_uint), ("room", ctypes.c_char * (1 << 18))]


def structure(function):
    made = getattr(pynvml, STRUCTURES[function])() if function in STRUCTURES else Room()
    if getattr(made, "version", None) == 0:
        made.version = ctypes.sizeof(made) | 1 << 24
    return made


# What a call is given, by the name of its parameter: a value, or a function from the device and the called function.
DEVICE, STRUCTURE, NOTHING = (lambda device, _: device), (lambda _, function: structure(function)), (lambda *_: ctypes.c_void_p())
ARGUMENTS = {
    **dict.fromkeys(("handle", "device", "device1", "device2", "handle1", "handle2", "migDevice"), DEVICE),
    **dict.fromkeys(("gpuInstance", "computeInstance", "unit", "gpmSample", "placement", "placementsRef", "countRef", "gpuInstancesRef", "computeInstancesRef",
                     "pgpuMetadata", "vgpuMetadata"), NOTHING),
    **dict.fromkeys(("c_info", "cper", "info", "params", "config", "c_vgpus", "c_vgpu_instance_info", "sched_state", "sched_state_v2", "c_vgpu_sched_state_info",
                     "c_vgpu_sched_state_info_v2", "c_vgpu_sched_log_info", "c_vgpu_sched_log_info_v2", "c_vgpu_placements", "settings", "c_clkMonInfo", "c_dynamicpstatesinfo",
                     "c_thermalsettings", "metricsGet", "gpuFabricInfo", "status", "caps", "platformInfo", "profilesInfo", "currentProfiles", "requestedProfiles",
                     "updateProfiles", "supportedBwModes", "getBwMode", "setBwMode", "setBwModeAsync", "counts", "samples", "limits", "eventData", "vgpuVersion", "pciInfo", "control"),
                    STRUCTURE),
    **dict.fromkeys(("type", "id", "index", "fan", "sensor", "threshold", "errorType", "counterType", "locationType", "mode", "scope", "flags", "version", "sourceFilter",
                     "apiType", "sampling_type", "timeStamp", "perfPolicyType", "counter", "cpuNumber", "link", "freeze", "reset", "capability", "state",
                     "vgpuTypeId", "vgpuInstance", "p2pIndex", "encoderQueryType", "profile", "profileId", "engProfile", "gpuInstanceId", "computeInstanceId", "sensorindex",
                     "pstate", "clockType", "powerScope", "enabled", "isRestricted", "color", "newState", "virtualization_mode", "heterogeneous_mode", "offset", "infoRomObject",
                     "eventTypes", "fanControlPolicy", "eventDataSize", "level", "encoder_capacity", "result", "temp", "l1threshold", "max_atk_adv", "c_ccMemSize"), 0),
    **dict.fromkeys(("cpuSetSize", "nodeSetSize"), 4),
    **dict.fromkeys(("timeoutMs", "timeoutms"), 1),
    **dict.fromkeys(("minGpuClockMHz", "maxGpuClockMHz", "maxGraphicsClockMHz"), 1000),
    **dict.fromkeys(("memoryClockMHz", "minMemClockMHz", "maxMemClockMHz"), 5001),
    **dict.fromkeys(("limit", "powerLimit"), 65000),
    "model": 1, "speed": 50, "pid": os.getpid(), "fieldIds": [83, 186, 1], "serial": b"1", "uuid": b"GPU-0", "pciBusId": b"00000000:01:00.0", "hostname": b"name",
    "eventSet": lambda *_: pynvml.nvmlEventSetCreate(), "setHandle": NOTHING, "c_nonce": lambda *_: (ctypes.c_uint8 * 32)(),
}


def plain(value, depth=0):
    """What an answer says, without addresses."""
    if isinstance(value, (int, float, str, type(None))):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (list, tuple)):
        return [plain(one, depth + 1) for one in value]
    if isinstance(value, ctypes.Array):
        return [plain(one, depth + 1) for one in value[:64]]
    if isinstance(value, (ctypes.Structure, ctypes.Union)) and not isinstance(value, Room):
        return {field[0]: plain(getattr(value, field[0]), depth + 1) for field in value._fields_}
    return plain(value.value) if isinstance(value, ctypes._SimpleCData) and not isinstance(value, (ctypes.c_void_p,)) else type(value).__name__


def call(name, function, device):
    """The error's number and what was answered: also what a structure of the caller holds afterwards."""
    print(name, file=sys.stderr)
    given = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            break  # usual values
        value = ARGUMENTS[parameter.name]
        given.append(value(device, name) if callable(value) else value)
    before = [bytes(one) if isinstance(one, ctypes.Structure) else None for one in given]
    source = inspect.getsource(function)  # some take the address of the caller's structure themselves
    try:
        told = function(*(one if was is None or f"byref({parameter})" in source else ctypes.pointer(one)
                          for one, was, parameter in zip(given, before, inspect.signature(function).parameters)))
    except pynvml.NVMLError as refused:
        return refused.value, None
    except Exception as wrong:  # the module's own: before or after NVML was asked
        return type(wrong).__name__, str(wrong)[:80]
    filled = [plain(one) for one, was in zip(given, before) if was is not None and bytes(one) != was]
    return 0, [plain(told), *filled]


def devices():
    for index in range(pynvml.nvmlDeviceGetCount()):
        card = pynvml.nvmlDeviceGetHandleByIndex(index)
        yield str(index), card
        for instance in range(7):
            try:
                yield f"{index}.{instance}", pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, instance)
            except pynvml.NVMLError:
                break


functions = {name: function for name, function in vars(pynvml).items() if name.startswith("nvml") and inspect.isfunction(function) and name not in HELPERS}
pynvml.nvmlInit()
if "user" in sys.argv:
    os.seteuid(65534)
print(json.dumps({place: {name: call(name, function, device) for name, function in functions.items()} for place, device in devices()}))
