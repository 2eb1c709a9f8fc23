"""Listings taken apart: kernels, names, control bits, facts of a cubin's other sections."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.isa import (
    MBARRIER_REMOTE,
    REMOTE_REDUCTION,
    TMA_CLUSTER,
    TMA_MULTICAST,
    TMA_REDUCE,
    TMA_STORE,
    MbarrierOp,
    NumberType,
    Op,
)
from sim.launch import LaunchError
from sim.sass import SassError, load_sass
from sim.sass.control import control_bits
from sim.sass.listing import parse_listing
from sim.sass.names import POINTER, parameter_types, plain_name
from sim.sass.operands import Memory, Number, Register, parse_operand, split_operands
from tests.sass.listings import COPY1, NVDISASM, cuobjdump


def test_control_bits_of_copy1() -> None:
    """The load sets barrier 2, and the store waits for it."""
    code = load_sass(COPY1)["copy1"].instructions
    load, store = code[12], code[14]
    assert (load.text, load.wbar, load.stall) == ("LDG.E", 2, 1)
    assert (store.text, store.wait) == ("STG.E", 1 << 2)
    assert [i.stall for i in code[:8]] == [8, 7, 8, 2, 1, 4, 13, 5]
    assert load_sass(COPY1)["copy1"].has_control


@given(
    st.integers(0, 15), st.integers(0, 1), st.integers(0, 7), st.integers(0, 7), st.integers(0, 63), st.integers(0, 15)
)
def test_control_bits_lie_where_they_lie(stall: int, yields: int, write: int, read: int, wait: int, reuse: int) -> None:
    encoding = stall << 105 | yields << 109 | write << 110 | read << 113 | wait << 116 | reuse << 122 | (1 << 105) - 1
    assert control_bits(encoding) == (stall, yields, write, read, wait, reuse)


def test_a_cuobjdump_listing() -> None:
    program = load_sass(COPY1)["_Z5copy1PKfPfi"]
    assert (program.arch, program.param_base, program.registers) == ("sm_90a", 0x210, 16)
    assert [(p.offset, p.kind) for p in program.params] == [(0, "pointer"), (8, "pointer"), (16, "scalar")]
    assert len(program.instructions) == 17  # without the NOPs behind the end
    assert "@P0 EXIT" in program.listing()


def test_an_nvdisasm_listing() -> None:
    program = load_sass(NVDISASM)["scale"]
    assert (program.arch, program.registers, program.shared_static_bytes, program.local_bytes) == ("sm_80", 24, 256, 32)
    assert program.param_base == 0x160
    assert program.banks[3][:8] == np.array([2, 3], np.float32).tobytes()
    assert not program.has_control
    assert {(s.file, s.number) for s in program.source} == {("/nowhere/scale.cu", 3), ("/nowhere/scale.cu", 4)}
    assert program.source[program.instructions[5].line].number == 4


def test_a_path_and_gzip(tmp_path) -> None:
    plain, packed = tmp_path / "k.sass", tmp_path / "k.sass.gz"
    plain.write_text(COPY1)
    packed.write_bytes(gzip.compress(COPY1.encode()))
    assert list(load_sass(plain)) == list(load_sass(str(packed))) == ["_Z5copy1PKfPfi"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n", "no kernel found"),
        (cuobjdump(["NOP"], arch="sm_52"), "is of sm_52"),
        (cuobjdump(["NOP"]).replace("code for sm_90", ""), "does not say of which architecture"),
        (cuobjdump(["NOP"]).replace("/*0010*/", "/*0008*/"), "instruction at 0x8 where 0x10 was expected"),
        (cuobjdump(["NOP"]) + cuobjdump(["NOP"]), "is there twice"),
    ],
)
def test_what_is_no_listing_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SassError, match=problem):
        parse_listing(text)


def test_a_cubin_is_not_a_listing(tmp_path) -> None:
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF\2\1")
    with pytest.raises(SassError, match="is a cubin, not a listing: sim.load_cubin reads it"):
        load_sass(tmp_path / "k.cubin")


def test_an_inlined_function_has_its_own_lines() -> None:
    def at(number: int) -> str:
        return f'\t//## File "k.cu", line {number}\n'

    first, code, *rest = cuobjdump(["NOP", "NOP", "NOP"]).partition("        /*0000*/")
    text = first + at(6) + code + "".join(rest).replace("        /*0010*/", at(2) + at(6) + "        /*0010*/", 1)
    text = text.replace("        /*0020*/", at(6) + "        /*0020*/", 1)
    lines = [raw.line[1] for raw in parse_listing(text).kernels["_Z1kPji"].instructions[:3] if raw.line]
    assert lines == [6, 2, 6]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("FROBNICATE R1, R2", "kernel _Z1kPji, address 0x0010: `FROBNICATE R1, R2`: opcode FROBNICATE is not known"),
        ("IADD3.FOO R1, R2, R3, RZ", "modifier .FOO is not known"),
        ("IADD3 R1, R2, R3, RZ, R9", "is one too many"),
        ("FADD R1, R2.H0_H0, R3", "suffix .H0_H0 is not known"),
        ("MUFU.FOO R1, R2", "it names no function"),
        ("S2R R1, SR_FOO", "special register SR_FOO is not known"),
        ("BRA 0x2000", "its target 0x2000 lies outside"),
        ("BRA `(.L_x_9)", "is not in this kernel's code"),
        ("UTMAREDG.2D [UR4], [UR16]", "it names no operation that is known"),
        ("UBLKRED.S.S.ADD [UR4], [UR6], UR8", "only copies between global and shared memory are known"),
        ("SYNCS.ARRIVE.TRANS64.RED.OPTOUT.A1T0 RZ, [UR11], RZ", "neither drops out nor has a result"),
        ("MOV R1, c[0x3][0x10]", "reads constant bank 3, which the listing does not have"),
    ],
)
def test_an_unknown_instruction_is_named(line: str, problem: str) -> None:
    kernels = load_sass(cuobjdump(["NOP", line]) + COPY1)
    assert "copy1" in kernels and kernels["copy1"].registers == 16  # the others stay usable
    with pytest.raises(SassError, match=problem.replace("(", r"\(").replace("[", r"\[").replace("`(", r"`\(")):
        kernels["k"]


def test_a_kernel_for_clusters_says_so() -> None:
    attribute = """
	//----- nvinfo : EIATTR_CTA_PER_CLUSTER
	.align		4
        /*0044*/ 	.byte	0x04, 0x3d
        /*0046*/ 	.short	(.L_663 - .L_662)
.L_662:
        /*0048*/ 	.word	0x00000002
        /*004c*/ 	.word	0x00000001
        /*0050*/ 	.word	0x00000001

	//----- nvinfo : EIATTR_PARAM_CBANK
"""
    text = NVDISASM.replace("\n	//----- nvinfo : EIATTR_PARAM_CBANK\n", attribute)
    assert text != NVDISASM
    program = load_sass(text)["scale"]
    assert program.cluster == (2, 1, 1)
    with pytest.raises(LaunchError, match=r"compiled for clusters of \(2, 1, 1\) blocks.*asks for others"):
        sim.Launch(program, 4, 32, (np.int32(0),) * 2, cluster=4)
    assert sim.Launch(program, 4, 32, (np.int32(0),) * 2).cluster == (2, 1, 1)


@pytest.mark.parametrize(
    ("line", "op", "x"),
    [
        ("UTMALDG.2D.MULTICAST [UR4], [UR10], UR9", Op.TMA, 2 | TMA_MULTICAST),
        ("UBLKCP.S.G.MULTICAST [UR4], [UR10], UR7", Op.TMA, TMA_MULTICAST),
        ("UBLKCP.S.S [UR10], [UR8], UR4", Op.TMA, TMA_CLUSTER),
        ("UTMAREDG.2D.MAX [UR12], [UR10]", Op.TMA, 2 | TMA_STORE | TMA_REDUCE | 2 << 8 | NumberType.U32 << 12),
        ("UBLKRED.G.S.ADD.F32.RN [UR6], [UR4], UR8", Op.TMA, TMA_STORE | TMA_REDUCE | NumberType.F32 << 12),
        ("SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [UR11], RZ", Op.MBARRIER, MbarrierOp.ARRIVE | MBARRIER_REMOTE),
        ("SYNCS.ARRIVE.TRANS64.RED RZ, [UR11], R12", Op.MBARRIER, MbarrierOp.ARRIVE_EXPECT | MBARRIER_REMOTE),
        ("ARRIVES.LDGSTSBAR.64.ARVCNT [UR4+0x8]", Op.COPY_ARRIVE, 0),
        ("ARRIVES.LDGSTSBAR.64.TRANSCNT [UR4]", Op.COPY_ARRIVE, 1),
        ("STAS.128 [R16.64], R4", Op.REMOTE_STORE, 0),
        ("REDAS.ADD [R14.64], R4", Op.REMOTE_STORE, REMOTE_REDUCTION | NumberType.U32 << 4),
        ("UCGABAR_ARV", Op.CLUSTER_ARRIVE, 0),
    ],
)
def test_instructions_of_clusters(line: str, op: Op, x: int) -> None:
    read = load_sass(cuobjdump([line]), shared_static_bytes=64)["k"].instructions[0]
    assert (read.op, read.x) == (op, x)


def test_kernels_are_found_by_name() -> None:
    text = "".join(
        cuobjdump(["NOP"], name)
        for name in ("_Z1fILi1EEvPfi", "_Z1fILi2EEvPfi", "_ZN3gpu1gEPf", "plain", "_Z5otherPf", "_Z5outerPf")
    )
    kernels = load_sass(text)
    assert kernels["_Z1fILi1E"].name == "_Z1fILi1EEvPfi"
    assert kernels["gpu::g"] is kernels["g"]
    assert kernels["plain"].name == "plain"
    assert "f" not in kernels and "_Z1fILi2E" in kernels and "nothing" not in kernels
    with pytest.raises(KeyError, match="may be any of _Z1fILi1EEvPfi, _Z1fILi2EEvPfi"):
        kernels["f"]
    with pytest.raises(KeyError, match="no kernel 'h'; the listing has f, gpu::g, other"):
        kernels["h"]


@pytest.mark.parametrize(
    ("mangled", "plain", "types"),
    [
        ("_Z5copy1PKfPfi", "copy1", (POINTER, POINTER, np.int32)),
        ("_Z7attn_pvPKfS0_Pfii", "attn_pv", (POINTER, POINTER, POINTER, np.int32, np.int32)),
        ("_Z8mm_tiledILi32EEvPKfS1_Pfi", "mm_tiled", (POINTER, POINTER, POINTER, np.int32)),
        ("_Z9relu_bf16PK13__nv_bfloat16PS_i", "relu_bf16", (POINTER, POINTER, np.int32)),
        ("_Z5saxpyifPKfPf", "saxpy", (np.int32, np.float32, POINTER, POINTER)),
        ("_ZN3gpu5scaleEdmPd", "gpu::scale", (np.float64, np.uint64, POINTER)),
        ("_Z1ev", "e", ()),
        ("_Z1s6float4", "s", (None,)),
        ("_Z2k2IfEvPT_i", "k2", None),
        ("kernel", "kernel", None),
    ],
)
def test_mangled_names(mangled: str, plain: str, types: object) -> None:
    assert plain_name(mangled) == plain
    assert parameter_types(mangled) == types


@given(st.text(alphabet="_ZNKPRSEILiefdvT0123456789abc", max_size=24))
def test_any_name_has_a_plain_form(name: str) -> None:
    for mangled in (name, "_Z" + name):
        assert isinstance(plain_name(mangled), str)
        parameter_types(mangled)


def test_operands() -> None:
    assert split_operands("P0, PT, |R4|, +INF , PT") == ["P0", "PT", "|R4|", "+INF", "PT"]
    assert parse_operand("-R4.reuse") == Register("R", 4, negative=True)
    assert parse_operand("!UP2") == Register("P", 10, inverted=True)
    assert parse_operand("-|R2|") == Register("R", 2, negative=True, absolute=True)
    address = parse_operand("desc[UR8][R6.64+UR4+-0x10]")
    assert address == Memory(Register("R", 6, ("64",)), Register("UR", 4), -16, "UR8")
    assert parse_operand("[R3.X4]") == Memory(Register("R", 3, ("X4",)), None, 0)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_immediate_keeps_its_bits(value: float) -> None:
    number = parse_operand(f"{value:.20g}")
    assert isinstance(number, Number)
    if "." in number.text or "e" in number.text:
        assert number.single() == int(np.float32(value).view(np.uint32))


def test_a_launch_needs_what_a_listing_does_not_say() -> None:
    program = load_sass(cuobjdump(["LDS R0, [R1]"]))["k"]
    with pytest.raises(sim.LaunchError, match="its listing does not say how much"):
        sim.Launch(program, 1, 32, (sim.zeros(4, np.uint32), 1))
    known = load_sass(cuobjdump(["LDS R0, [R1]"]), shared_static_bytes={"k": 64})["k"]
    assert sim.Launch(known, 1, 32, (sim.zeros(4, np.uint32), 1)).program.shared_static_bytes == 64
    with pytest.raises(KeyError, match="names 'nope'"):
        load_sass(COPY1, registers={"nope": 8})
    unnamed = load_sass(cuobjdump(["NOP"], name="k"))["k"]
    with pytest.raises(sim.LaunchError, match=r"give an array or a NumPy scalar, np.int32"):
        sim.Launch(unnamed, 1, 32, (5,))
    typed = sim.Launch(unnamed, 1, 32, (np.int16(1), np.zeros(4, np.float32), np.float32(2), np.float64(1))).program
    assert [p.offset for p in typed.params] == [0, 8, 16, 24]
