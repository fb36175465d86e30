"""A device of CUDA that is this processor: the calls of cuda-bindings that the backend makes, and kernels' text as C++.

The text that NVRTC would compile is compiled by g++, with the language of CUDA defined as the little that it is here: items
run one after the other, as they may: groups of a kernel that has barriers have one item.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

COMPILER = shutil.which("g++")

_FUNCTIONS = (
    "exp expm1 log log1p sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh "
    "ceil floor rint fabs erf"
)

_HEAD = """
#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __syncthreads()
static struct { unsigned x, y, z; } blockIdx, blockDim, gridDim, threadIdx;
static inline float __uint_as_float(unsigned x) { float f; __builtin_memcpy(&f, &x, 4); return f; }
static inline float __int_as_float(int x) { float f; __builtin_memcpy(&f, &x, 4); return f; }
static inline unsigned __float_as_uint(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return u; }
static inline int __float2int_rn(float x) { return (int)__builtin_rintf(x); }
static inline float __fmul_rn(float x, float y) { return x * y; }
#define ONE(g) \\
    static inline float g(float x) { return __builtin_##g##f(x); } \\
    static inline double g(double x) { return __builtin_##g(x); } \\
    static inline float g##f(float x) { return __builtin_##g##f(x); }
#define TWO(g) \\
    static inline float g(float x, float y) { return __builtin_##g##f(x, y); } \\
    static inline double g(double x, double y) { return __builtin_##g(x, y); }
TWO(pow) TWO(fmod)
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
"""

_TAIL = """
extern "C" void emulated(const unsigned *n, void **a)
{
    gridDim.x = n[0], gridDim.y = n[1], gridDim.z = n[2], blockDim.x = n[3], blockDim.y = n[4], blockDim.z = n[5];
    for (blockIdx.y = 0; blockIdx.y < n[1]; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < n[0]; blockIdx.x++)
            for (threadIdx.y = 0; threadIdx.y < n[4]; threadIdx.y++)
                for (threadIdx.x = 0; threadIdx.x < n[3]; threadIdx.x++)
                    KERNEL_(ARGUMENTS_*(int *)a[N_], *(int *)a[N_ + 1]);
}
"""


class Result(IntEnum):
    SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100


OK = (Result.SUCCESS,)


class Emulated:
    """State of the device. attributes: what it says of itself. memory: allocations by address. limit: bytes it has.
    launches, copied: counted; played: graphs; swapped: kernels of graphs that came before earlier ones.
    """

    def __init__(self, folder: Path, **attributes: int) -> None:
        self.folder, self.limit, self.launches, self.copied = folder, 1 << 30, 0, 0
        self.attributes = {
            "COMPUTE_CAPABILITY_MAJOR": 8,
            "COMPUTE_CAPABILITY_MINOR": 7,
            "MULTIPROCESSOR_COUNT": 8,
            "CLOCK_RATE": 1_000_000,
            "MAX_THREADS_PER_BLOCK": 1024,
        } | attributes
        self.memory: dict[int, Any] = {}
        self.graphs: dict[int, list[Any]] = {}
        self.played = self.swapped = 0
        self.events: dict[
            int, int
        ] = {}  # the launches before each of them, which take a millisecond

    def allocated(self, size: int, flags: int = 0) -> tuple[Any, ...]:
        if sum(map(len, self.memory.values())) + size > self.limit:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        found = (ctypes.c_uint8 * size)(*b"\xa5" * min(size, 64))
        self.memory[ctypes.addressof(found)] = found
        return *OK, ctypes.addressof(found)

    def copy(self, to: int, source: int, size: int) -> tuple[Any, ...]:
        ctypes.memmove(int(to), int(source), size)
        self.copied += size
        return OK

    def function(self, text: bytes, name: bytes) -> tuple[Any, ...]:
        code = _HEAD + "".join(f"ONE({one})\n" for one in _FUNCTIONS.split()) + text.decode()
        own = (
            code[code.index("#define PORTS ") :].partition("\n")[0]
            if "#define PORTS " in code
            else ""
        )
        count = 4 + own.count(",")
        places = "".join(f"*({'int' if k == 3 else 'char'} **)a[{k}], " for k in range(count))
        code += f"\n#define ARGUMENTS_ {places}\n#define N_ {count}\n"
        code += _TAIL.replace("KERNEL_", name.decode())
        file = self.folder / f"{hashlib.sha256(code.encode()).hexdigest()}.so"
        if not file.exists():
            assert COMPILER is not None
            flags = (
                "-shared",
                "-fPIC",
                "-O1",
                "-fno-builtin",
                "-ffp-contract=off",
                "-w",
                "-x",
                "c++",
            )
            subprocess.run(
                [COMPILER, *flags, "-", "-o", file, "-lm"], input=code, text=True, check=True
            )
        found = ctypes.CDLL(str(file)).emulated
        return *OK, SimpleNamespace(run=found, group=1 if "series" in name.decode() else 1024)

    def launch(self, kernel: Any, *arguments: int) -> tuple[Any, ...]:
        *sizes, _, _, places, _ = arguments
        assert sizes[1] <= 65_535 and sizes[2] <= 65_535
        kernel.run((ctypes.c_uint32 * 6)(*sizes), ctypes.c_void_p(places))
        self.launches += 1
        return OK

    def graph(self, flags: int) -> tuple[Any, ...]:
        number = max(self.graphs, default=0) + 1
        self.graphs[number] = []
        return *OK, number

    def node(self, graph: int, behind: list[int], count: int, node: Any) -> tuple[Any, ...]:
        nodes = self.graphs[graph]
        assert len(behind) == count and all(0 <= one < len(nodes) for one in behind)
        nodes.append((node, behind))
        return *OK, len(nodes) - 1

    def play(self, graph: int, stream: int) -> tuple[Any, ...]:
        """Kernels as late as they were added, but behind those that they wait for: an order that a device may have."""
        left = dict(enumerate(self.graphs[graph]))
        while left:
            number = max(k for k, (_, behind) in left.items() if not left.keys() & set(behind))
            one, _ = left.pop(number)
            self.swapped += any(k < number for k in left)
            grid = one.gridDimX, one.gridDimY, one.gridDimZ
            block = one.blockDimX, one.blockDimY, one.blockDimZ
            self.launch(one.func, *grid, *block, 0, 0, one.kernelParams, 0)
        self.played += 1
        return OK

    def event(self, flags: int) -> tuple[Any, ...]:
        self.events[len(self.events)] = 0
        return *OK, len(self.events) - 1

    def recorded(self, event: int, stream: int) -> tuple[Any, ...]:
        self.events[event] = self.launches
        return OK

    def driver(self) -> ModuleType:
        made = ModuleType("cuda.bindings.driver")
        prefix = "CU_DEVICE_ATTRIBUTE_"
        others = "INTEGRATED", "MANAGED_MEMORY", "HOST_REGISTER_SUPPORTED"
        attributes = SimpleNamespace(
            **{f"{prefix}{name}": name for name in (*self.attributes, *others)}
        )
        made.__dict__.update(
            CUdevice_attribute=attributes,
            CUmemAttach_flags=SimpleNamespace(CU_MEM_ATTACH_GLOBAL=1),
            CU_MEMHOSTREGISTER_DEVICEMAP=2,
            cuInit=lambda flags: OK,
            cuDeviceGet=lambda number: (*OK, number),
            cuDeviceGetName=lambda size, device: (*OK, b"Emulated\0"),
            cuDeviceGetAttribute=lambda name, device: (*OK, self.attributes.get(name, 0)),
            cuDriverGetVersion=lambda: (*OK, 12_080),
            cuDeviceTotalMem=lambda device: (*OK, self.limit),
            cuDevicePrimaryCtxRetain=lambda device: (*OK, 1),
            cuCtxSetCurrent=lambda context: OK,
            cuCtxSynchronize=lambda: OK,
            cuMemAlloc=self.allocated,
            cuMemAllocManaged=self.allocated,
            cuMemFree=lambda at: (self.memory.pop(int(at)), OK)[1],
            cuMemcpyHtoD=self.copy,
            cuMemcpyDtoH=self.copy,
            cuMemHostRegister=lambda at, size, flags: OK,
            cuMemHostUnregister=lambda at: OK,
            cuMemHostGetDevicePointer=lambda at, flags: (*OK, at),
            cuModuleLoadData=lambda binary: (*OK, binary),
            cuModuleGetFunction=self.function,
            CUfunction_attribute=SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK=0),
            cuFuncGetAttribute=lambda about, kernel: (*OK, kernel.group),
            cuLaunchKernel=self.launch,
            CUDA_KERNEL_NODE_PARAMS=SimpleNamespace,
            cuGraphCreate=self.graph,
            cuGraphAddKernelNode=self.node,
            cuGraphInstantiate=lambda graph, flags: (*OK, graph),
            cuGraphDestroy=lambda graph: OK,
            cuGraphLaunch=self.play,
            cuGraphExecDestroy=lambda graph: (self.graphs.pop(int(graph)), OK)[1],
            cuEventCreate=self.event,
            cuEventRecord=self.recorded,
            cuEventElapsedTime=lambda a, b: (*OK, 1.0 * (self.events[b] - self.events[a])),
            cuEventDestroy=lambda event: OK,
        )  # fmt: skip
        return made

    def nvrtc(self) -> ModuleType:
        """What compiles, here: the binary is the text."""

        def take(text: bytes, into: bytearray) -> tuple[Any, ...]:
            into[:] = text
            return OK

        made = ModuleType("cuda.bindings.nvrtc")
        made.__dict__.update(
            nvrtcGetSupportedArchs=lambda: (*OK, [50, 87, 90]),
            nvrtcCreateProgram=lambda text, *_: (*OK, text),
            nvrtcCompileProgram=lambda *_: OK,
            nvrtcGetCUBINSize=lambda text: (*OK, len(text)),
            nvrtcGetCUBIN=take,
            nvrtcDestroyProgram=lambda program: OK,
        )
        return made

    def installed(self, patch: pytest.MonkeyPatch) -> None:
        """cuda-bindings are this device as long as the patch holds; binaries are kept in its folder."""
        patch.setitem(sys.modules, "cuda.bindings.driver", self.driver())
        patch.setitem(sys.modules, "cuda.bindings.nvrtc", self.nvrtc())
        patch.setenv("XDG_CACHE_HOME", str(self.folder))
