"""Make machine code of kernels that Numba has compiled to LLVM's bitcode. Needs no Numba, whose import takes long."""

from functools import cache
from typing import Any, NamedTuple

CALLED_BY_LLVM = ("memcpy", "memmove", "memset")
"""The only functions that a kernel may call. LLVM silently uses address 0 for a function that it cannot find."""
OPTIMIZATION = 2
"""LLVM's level: with level 3, kernels are as fast, but up to twice as large and twice as slow to compile."""
CRC_WORD, CRC_BYTE = "kafkalog_crc32c_word", "kafkalog_crc32c_byte"
"""The functions that advance a CRC-32C by eight bytes and by one. Their code is this processor's instruction."""


BOOLEAN, INTEGER = "b", "i"


class KernelCode(NamedTuple):
    """The code of one kernel, `module:function`: machine code, or LLVM's bitcode, which suits any processor.

    `arguments` has one character per argument: a digit is an array with that number of dimensions, `i` an integer, `b`
    a boolean. `results` is the number of integers returned.
    """

    name: str
    symbol: str
    arguments: str
    results: int
    code: bytes


class _CrcSteps(NamedTuple):
    """The instructions of a processor family for CRC-32C: the feature that has them, and how the functions use them."""

    feature: str
    functions: str


_CRC_STEPS = {
    "x86_64": _CrcSteps(
        "crc32",
        f"""
declare i64 @llvm.x86.sse42.crc32.64.64(i64, i64)
declare i32 @llvm.x86.sse42.crc32.32.8(i32, i8)
define i64 @{CRC_WORD}(i64 %crc, i64 %word) alwaysinline {{
  %next = call i64 @llvm.x86.sse42.crc32.64.64(i64 %crc, i64 %word)
  ret i64 %next
}}
define i64 @{CRC_BYTE}(i64 %crc, i64 %word) alwaysinline {{
  %narrow = trunc i64 %crc to i32
  %byte = trunc i64 %word to i8
  %next = call i32 @llvm.x86.sse42.crc32.32.8(i32 %narrow, i8 %byte)
  %wide = zext i32 %next to i64
  ret i64 %wide
}}
""",
    ),
    "aarch64": _CrcSteps(
        "crc",
        f"""
declare i32 @llvm.aarch64.crc32cx(i32, i64)
declare i32 @llvm.aarch64.crc32cb(i32, i32)
define i64 @{CRC_WORD}(i64 %crc, i64 %word) alwaysinline {{
  %narrow = trunc i64 %crc to i32
  %next = call i32 @llvm.aarch64.crc32cx(i32 %narrow, i64 %word)
  %wide = zext i32 %next to i64
  ret i64 %wide
}}
define i64 @{CRC_BYTE}(i64 %crc, i64 %word) alwaysinline {{
  %narrow = trunc i64 %crc to i32
  %byte = trunc i64 %word to i32
  %next = call i32 @llvm.aarch64.crc32cb(i32 %narrow, i32 %byte)
  %wide = zext i32 %next to i64
  ret i64 %wide
}}
""",
    ),
}
_CRC_STEPS["arm64"] = _CRC_STEPS["aarch64"]


def crc_functions() -> str | None:
    """Return CRC_WORD and CRC_BYTE for this processor, None if it has no instruction for CRC-32C."""
    import llvmlite.binding as llvm

    steps = _CRC_STEPS.get(llvm.get_process_triple().partition("-")[0])
    return steps.functions if steps is not None and llvm.get_host_cpu_features().get(steps.feature) else None


@cache
def native_machine() -> Any:
    """Return LLVM's description of this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=OPTIMIZATION,
        reloc="static" if triple.startswith("x86") else "default",  # the loader of code needs this on x86
        codemodel="jitdefault",
        jit=True,
    )


class UnusableBitcode(Exception):
    """Bitcode of another version of LLVM, or for a processor that has an instruction for CRC-32C."""


def assembled(bitcode: bytes) -> bytes:
    """Return a kernel's machine code for this processor. Raises UnusableBitcode."""
    import llvmlite.binding as llvm

    machine = native_machine()
    try:
        module = llvm.parse_bitcode(bitcode)
    except RuntimeError as error:
        raise UnusableBitcode from error
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if any(function.name == CRC_WORD for function in module.functions):
        steps = crc_functions()
        if steps is None:
            raise UnusableBitcode
        module.link_in(llvm.parse_assembly(steps))
        for name in (CRC_WORD, CRC_BYTE):
            module.get_function(name).linkage = "internal"
    tuning = llvm.create_pipeline_tuning_options(speed_level=OPTIMIZATION)
    tuning.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    for function in module.functions:
        if function.is_declaration and not (function.name in CALLED_BY_LLVM or function.name.startswith("llvm.")):
            raise ValueError(f"a kernel needs {function.name}")
    return bytes(machine.emit_object(module))
