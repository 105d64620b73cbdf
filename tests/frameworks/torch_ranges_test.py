#!/usr/bin/env python3
"""Ranges of NVTX that PyTorch gives (`torch.cuda.nvtx`), and a C program with NVIDIA's own header, in a recording. Run by the Python that has PyTorch."""
import json
import pathlib
import subprocess
import unittest

from case import RATION, TORCH, FrameworkCase

HEADER = next(iter(pathlib.Path(next(path for path in __import__("site").getsitepackages())).glob("nvidia/*/include/nvtx3/nvToolsExt.h")), None)
IN_C = r"""
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
int main(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = dlsym(driver, "cuInit"), (*retain)(void**, int) = dlsym(driver, "cuDevicePrimaryCtxRetain"), (*use)(void*) = dlsym(driver, "cuCtxSetCurrent");
  int (*take)(unsigned long long*, unsigned long) = dlsym(driver, "cuMemAlloc_v2");
  void* context;
  unsigned long long address;
  nvtxRangePushA("outer");
  if (init(0) || retain(&context, 0) || use(context)) return 1;
  nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxRangePushW(L"wide");
  nvtxRangePop();
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "started";
  nvtxRangeId_t range = nvtxDomainRangeStartEx(domain, &attributes);
  nvtxMarkA("moment");
  if (take(&address, 100 << 20)) return 2;
  nvtxDomainRangeEnd(domain, range);
  nvtxDomainRangePop(domain);
  nvtxRangePop();
  return 0;
}
"""


class Ranges(FrameworkCase):
    prelude = TORCH

    def inspected(self, file):
        told = subprocess.run([RATION, "inspect", file, "-o", "json"], env=self.environment, capture_output=True, text=True)
        return json.loads(told.stdout)["data"]

    def test_the_ranges_of_pytorch_are_those_of_its_peak(self):
        file = pathlib.Path(self.folder.name, "run.rec")
        self.assertEqual(self.run_program("""
            with torch.cuda.nvtx.range("epoch 3"):
                torch.cuda.nvtx.range_push("forward")
                kept = bytes_(300 << 20)
                torch.cuda.nvtx.range_pop()
                del kept
                torch.cuda.nvtx.mark("here")
            print(0)
        """, options=("--record", file)), 0)
        found = self.inspected(file)
        self.assertEqual([each["names"] for each in found["held"][0]["ranges"]], [["epoch 3", "forward"]])
        self.assertEqual([each["text"] for each in found["marks"]], ["here"])

    @unittest.skipUnless(HEADER, "this PyTorch brings no header of NVTX")
    def test_a_program_with_nvidias_header(self):
        file, source, program = (pathlib.Path(self.folder.name, name) for name in ("run.rec", "ranges.c", "ranges"))
        source.write_text(IN_C)
        subprocess.run(["gcc", "-I", HEADER.parent.parent, "-o", program, source, "-ldl"], check=True)
        ran = subprocess.run([RATION, "run", "--sim=T4:16GiB", "--limit", "1GiB", "--record", file, "--", program], env=self.environment, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""), ran.stderr)
        found = self.inspected(file)
        self.assertEqual([each["names"] for each in found["held"][0]["ranges"]], [["outer", "registered", "started"]])
        self.assertEqual([each["text"] for each in found["marks"]], ["moment"])


if __name__ == "__main__":
    unittest.main()
