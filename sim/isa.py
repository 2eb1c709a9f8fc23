"""The instruction set: opcodes, operands and the decoded form that the core reads.

It is close to NVIDIA's SASS (Volta to Hopper), so that a builder kernel, a
compiled listing and a recorded trace are all programs of one set. A program
lives in two forms:

* `Instruction` - one object an instruction, what producers make and listings print;
* the *decoded* form - an `int32` array `code[n, len(Col)]`, one row an
  instruction, what the compiled core reads. `Program.decode` makes it.

Operand rows
------------
A register operand is a *row*: 32 `uint32`, one a lane. In decoded form a row is
a code: `>= 0` counts from the warp's first row (R registers, then uniform
registers, then scratch rows), `< 0` names row `-code - 1` of the rows that all
warps share (row 0 is zero; then immediates and constant-bank words). So the core
reads every operand the same way, wherever it comes from.
"""

from __future__ import annotations

from enum import IntEnum

WARP_SIZE = 32
FULL_MASK = 0xFFFFFFFF
RZ = 255  #: register number that reads zero and swallows writes
PT = 7  #: predicate number that is always true
URZ = 63
UPT = 15  #: uniform predicates UP0..UP6 are predicates 8..14; UPT is 15
PREDICATES = 16
CONVERGENCE_BARRIERS = 16
SCRATCH_ROWS = 20  #: rows a warp has beyond its registers, for partial writes and source modifiers
INSTRUCTION_BYTES = 16
SHARED_WINDOW = 0x7E00_0000_0000  #: generic addresses of a block's shared memory, 4 GiB from here
LOCAL_WINDOW = 0x7D00_0000_0000  #: of a thread's local memory
CONSTANT_WINDOW = 0x7C00_0000_0000  #: of constant bank 0, where descriptors that are parameters lie
CLUSTER_SHIFT = 24  #: bits of a shared address that are the offset; the block's rank in its cluster lies above


class Op(IntEnum):
    """What an instruction computes. Groups of 32 let the core branch on `op >> 5`."""

    # 0: moves and 32-bit integers
    NOP = 0
    MOV = 1
    SEL = 2  # d = PA ? a : b
    IADD3 = 3  # d = a + b + c (+ carries PA, PB with .X); PD, PE carry out; X = 64: of 64-bit pairs
    IMAD = 4  # low 32 bits of a * b + c
    IMAD_HI = 5
    IMAD_WIDE = 6  # 64-bit d = a * b + 64-bit c
    LOP3 = 7  # X = look-up table; PD = any bit set or PA; X | 256: and PA
    SHF = 8  # funnel shift of c:a by b; X = ShiftMode bits
    LEA = 9  # d = (a << X) + b; PD carry out
    LEA_HI = 10  # d = (c:a << X)[63:32] + b (+ carry PA with .X)
    ISETP = 11  # PD = (a cmp b) bool PA; PE = !(a cmp b) bool PA; X = cmp | bool << 4 | unsigned << 8 | ex << 9
    IMNMX = 12  # d = PA ? min : max of a and b; X = 1 unsigned, X & 2: of a + c and b
    IABS = 13
    POPC = 14
    FLO = 15  # X = 1 signed, X & 2 = SH (shift amount)
    BREV = 16
    PRMT = 17  # byte permute of c:a by selector b
    SGXT = 18  # X = 1 unsigned
    BMSK = 19
    S2R = 20  # X = SpecialRegister
    PLOP3 = 21  # PD = lut(PA, PB, PC); X = table (PD) | table (PE) << 8; PC in Y
    P2R = 22
    R2P = 23
    R2UR = 24  # uniform d = a of the first active lane
    IDP = 25  # d = sum of byte products + c; X = 1, 2 a, b unsigned; X & 4: d = |a - b| + c; X & 8: of bytes, summed
    VOTE = 26  # X = 0 all, 1 any, 2 eq; d = ballot; PD
    SHFL = 27  # X = 0 idx, 1 up, 2 down, 3 bfly; a value, b lane, c clamp|mask; PD = source in range
    MATCH = 28
    REDUX = 29
    IMUL = 30
    CSET = 31

    # 32: float32, conversions, special functions
    FADD = 32
    FMUL = 33
    FFMA = 34  # fused, one rounding; X = rounding | ftz << 2 | sat << 3
    FSETP = 35  # X = cmp | bool << 4 | ftz << 8; cmp 8..15 unordered
    FSEL = 36
    FMNMX = 37
    FSET = 38
    FCHK = 39
    MUFU = 40  # X = MufuFunction
    I2F = 41  # X = source type | destination type << 4 | rounding << 8 | first byte of the source << 12
    F2I = 42
    F2F = 43
    FRND = 44
    I2I = 45
    F2FP = 46  # pack two f32 into halves; X = type of the halves
    FSWZADD = 47

    # 64: half2, double
    HADD2 = 64  # X = packed type (0 f16, 1 bf16) | selectors << 4
    HMUL2 = 65
    HFMA2 = 66
    HSETP2 = 67
    HMNMX2 = 68
    HSET2 = 69
    DADD = 72
    DMUL = 73
    DFMA = 74
    DSETP = 75  # X = cmp | bool << 4; X & 256, 512: PD = a is the minimum, maximum, PE = neither is a number
    DMNMX = 76

    # 96: memory (Col.SPACE, Col.WIDTH; address = 64-bit a, or 32-bit for shared/local/constant, + Y)
    LD = 96  # global, shared, local, constant, by Col.SPACE
    ST = 97  # b = first data row
    ATOM = 98  # d = old value; b data, c compare value; X = AtomicOp | AtomicType << 4
    RED = 99  # atomic without a result
    LDSM = 100  # ldmatrix; WIDTH = matrices (1, 2, 4); X = 1 transposed
    STSM = 101
    LDGSTS = 102  # global (64-bit b) to shared (a): Y = shared offset, X = global offset
    LDGDEPBAR = 103  # commit: what LDGSTS started belongs to a group
    DEPBAR = 104  # wait until at most X groups are pending
    MEMBAR = 105  # X = 0 cta, 1 gpu, 2 sys
    CCTL = 106

    # 128: tensor
    HMMA = 128  # X = MmaShape | type << 8
    IMMA = 129
    DMMA = 130
    MOVM = 131

    # 160: control
    BRA = 160  # Y = target instruction; taken where PA holds too; X = 2: by all active lanes if by any
    EXIT = 161
    BSSY = 162  # X = convergence barrier, Y = reconvergence instruction
    BSYNC = 163  # X = convergence barrier
    BREAK = 164
    WARPSYNC = 165
    YIELD = 166
    BAR = 167  # X = 0 sync, 1 arrive, 2..4 red.popc, and, or of PA; Y = barrier, or a; b = threads (0: the block)
    CALL = 168  # as BRA; the return address is in a register
    RET = 169  # as BRX
    BRX = 170  # to the byte address a + Y of the program, each lane to its own
    BMOV = 171  # X = convergence barrier | 64: from a, else to d | 128: and clear it
    NANOSLEEP = 172
    KILL = 173
    BPT = 174  # BPT.TRAP: ends the kernel
    BRA_DIV = 175  # branch where lanes of mask a (none: all) are not active; X = 1: where none is missing
    B2R = 176  # d, PD = what the last BAR.RED of barrier Y found

    # 192: asynchronous units and clusters (Hopper), compiled on their own
    HGMMA = 192  # a warp's part of wgmma: d += A B; a: registers or a descriptor, b: descriptor; X: WGMMA_*; PA: add d
    WARPGROUP_ARRIVE = 193  # wgmma.fence
    WARPGROUP_DEPBAR = 194  # wait until at most X groups of wgmma are pending
    MBARRIER = 195  # SYNCS on the 64-bit word at a + Y; X = MbarrierOp; b = count, bytes, parity, state; d, PD results
    TMA = 196  # X = Tma bits; a = {shared address, mbarrier or first coordinate, ...}, b = 64-bit descriptor or address
    TMA_COMMIT = 197  # UTMACMDFLUSH: what TMA stored belongs to a group, for DEPBAR
    CLUSTER_ARRIVE = 198  # at the cluster's barrier, whole warps
    CLUSTER_WAIT = 199
    SETMAXREG = 200  # X = registers a thread; PD = whether they were to be had (releasing them always succeeds)
    ELECT = 201  # PD = the first active lane alone
    WARPGROUP_COMMIT = 204  # wgmma.commit_group where no product carries it
    COPY_ARRIVE = 202  # arrive on the mbarrier at a + Y when the warp's copies so far have come; X = 1: complete a byte
    REMOTE_STORE = (
        203  # STAS: b to the cluster's shared memory at a, its bytes complete at the mbarrier at a's next word
    )


ADD_64 = 64  #: `X` of IADD3
BRANCH_ANY = 2  #: `X` of BRA


class Col(IntEnum):
    """Columns of the decoded form `code[n, len(Col)]`, `int32`."""

    OP = 0
    CLASS = 1  # TimingClass
    GUARD = 2  # predicate 0..15, + 16 when negated
    D = 3  # destination row code
    ND = 4  # destination rows written: 0, 1, 2, 4 (8 for DMMA)
    A = 5
    B = 6
    C = 7
    NA = 8  # rows read at A, B, C: 0, 1, 2, 4, 8
    NB = 9
    NC = 10
    SMOD = 11  # SMOD_* bits: negate or absolute value of a source
    PD = 12  # destination predicates; PT discards
    PE = 13
    PA = 14  # source predicates, + 16 when negated
    PB = 15
    X = 16  # meaning by opcode
    Y = 17  # memory offset in bytes, branch target, barrier number
    SPACE = 18  # Space
    WIDTH = 19  # bytes a lane accesses: 1, 2, 4, 8, 16
    LINE = 20  # index into Program.source
    FLAGS = 21  # FLAG_* bits
    STALL = 22  # control bits, as the encoding has them; only with Program.has_control
    YIELD = 23
    WBAR = 24  # 0..5, 7 none
    RBAR = 25
    WAIT = 26  # mask of barriers 0..5
    REUSE = 27


SMOD_NEG_A, SMOD_NEG_B, SMOD_NEG_C = 1, 2, 4
SMOD_ABS_A, SMOD_ABS_B, SMOD_ABS_C = 8, 16, 32
SMOD_NOT_A, SMOD_NOT_B, SMOD_NOT_C = 64, 128, 256  # bitwise

FLAG_EXTENDED = 1  # .X or .EX: take carries in
FLAG_SIGNED = 2  # signed integer operands or sign-extended load
FLAG_UNIFORM = 4  # runs on the uniform datapath
FLAG_STRONG = 8  # volatile or .STRONG: performed at L2, in time order
FLAG_NO_ALLOCATE = 16  # load that bypasses L1 (.cg)
FLAG_CONSTANT_OPERAND = 32  # reads the constant bank as an operand
FLAG_FTZ = 64
FLAG_ZERO_FILL = 128  # LDGSTS: lanes whose source-size predicate PA is false write zeros
SCALE_SHIFT = 8  # three bits of a memory instruction's FLAGS: its address takes a << these
FLAG_COUNT = 2048  # shared atomic that counts lanes (.POPC.INC): those of one address go as one


class TimingClass(IntEnum):
    """Rows of the profile's `[timing.NAME]` tables: pipe, latency, issue interval."""

    FP32 = 0
    IMAD = 1
    IMAD_WIDE = 2
    ALU = 3
    SETP = 4  # writes a predicate
    FP16 = 5
    FP64 = 6
    XU = 7
    CONVERT = 8
    UNIFORM = 9
    BRANCH = 10
    BARRIER = 11
    S2R = 12
    SHUFFLE = 13
    VOTE = 14
    LDC = 15
    LOAD_STORE = 16  # goes through the memory pipeline; latency comes from it
    HMMA_16816 = 17
    HMMA_1688 = 18
    IMMA = 19
    DMMA = 20
    CONTROL = 21  # NOP, BSSY, EXIT, DEPBAR and other front-end work
    MOV = 22
    TID = 23  # S2R of a thread's number


class Pipe(IntEnum):
    """Execution pipes of a sub-core, by Nsight's names."""

    FMA = 0  # fmalite where the chip has two FMA halves
    FMAHEAVY = 1
    ALU = 2
    FP64 = 3
    XU = 4
    UNIFORM = 5
    TENSOR = 6
    CBU = 7
    LSU = 8
    ADU = 9
    FP16 = 10


class Space(IntEnum):
    NONE = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3
    CONSTANT = 4
    GENERIC = 5


class Compare(IntEnum):
    F = 0
    LT = 1
    EQ = 2
    LE = 3
    GT = 4
    NE = 5
    GE = 6
    T = 7
    NUM = 7
    LTU = 9
    EQU = 10
    LEU = 11
    GTU = 12
    NEU = 13
    GEU = 14
    NAN = 8


class BoolOp(IntEnum):
    AND = 0
    OR = 1
    XOR = 2


class MufuFunction(IntEnum):
    COS = 0  # of 2 pi x, as the hardware's
    SIN = 1
    EX2 = 2
    LG2 = 3
    RCP = 4
    RSQ = 5
    RCP64H = 6
    RSQ64H = 7
    SQRT = 8
    TANH = 9


class ShiftMode(IntEnum):
    """Bits of `X` for SHF."""

    RIGHT = 1
    SIGNED = 2  # arithmetic
    HI = 4  # result is the high word of the shifted pair
    WRAP = 8  # shift amount modulo 32 (64 for WIDE), else clamped
    WIDE = 16  # 64-bit source (U64/S64)


class NumberType(IntEnum):
    """Types in conversions, atomics, tensor and packed instructions."""

    U8 = 0
    S8 = 1
    U16 = 2
    S16 = 3
    U32 = 4
    S32 = 5
    U64 = 6
    S64 = 7
    F16 = 8
    BF16 = 9
    F32 = 10
    F64 = 11
    TF32 = 12
    E4M3 = 13
    E5M2 = 14


class Rounding(IntEnum):
    RN = 0
    RZ = 1
    RM = 2
    RP = 3


class AtomicOp(IntEnum):
    ADD = 0
    MIN = 1
    MAX = 2
    INC = 3
    DEC = 4
    AND = 5
    OR = 6
    XOR = 7
    EXCH = 8
    CAS = 9
    CAST = 10  # compare and swap that returns whether it swapped


class MbarrierOp(IntEnum):
    """`X & 15` of MBARRIER; 16 more: in the shared memory of a block of the cluster, which the address names."""

    INIT = 0  # the 64-bit word at b
    ARRIVE = 1  # b threads
    ARRIVE_EXPECT = 2  # one thread, which expects b bytes more
    EXPECT = 3  # b bytes
    COMPLETE = 4  # b bytes
    ARRIVE_DROP = 5  # one thread, of which no further phase is expected
    TRY_WAIT = 6  # until the phase of parity b >> 31 is complete; PD
    TEST_WAIT = 7  # whether it is
    INVALIDATE = 8


MBARRIER_REMOTE = 16

#: `X` of HGMMA: N / 8, then from these bits on
WGMMA_A_TYPE, WGMMA_B_TYPE = 8, 12  # NumberType
WGMMA_HALF_SUM, WGMMA_A_REGISTERS, WGMMA_A_MN_MAJOR, WGMMA_B_MN_MAJOR = 1 << 16, 1 << 17, 1 << 18, 1 << 19
WGMMA_NEGATE_A, WGMMA_NEGATE_B, WGMMA_SATURATE, WGMMA_COMMIT = 1 << 20, 1 << 21, 1 << 22, 1 << 23

REMOTE_REDUCTION = 1 << 8  #: `X` of REMOTE_STORE: it is an atomic's, of AtomicOp | NumberType << 4, on what is there

#: `X` of TMA: dimensions 1 to 5 (0: a run of bytes, of which c has the number of 16-byte units), then these bits.
#: TMA_STORE | TMA_REDUCE adds to what is there; the upper half of c has the blocks that TMA_MULTICAST copies to;
#: TMA_CLUSTER copies from the block's own shared memory, at b, to a block's of the cluster, at a
TMA_STORE, TMA_REDUCE, TMA_PREFETCH, TMA_MULTICAST, TMA_CLUSTER = 8, 16, 32, 64, 128
TMA_OPERATION, TMA_TYPE = 8, 12  #: from these bits on: AtomicOp, and NumberType (a tensor's is in its map)


# Tensor maps: 16 words of 64 bits that say where a tensor is and what a TMA box of it is (`sim.tensor_map` makes them;
# a real card's are opaque and made by its driver).
MAP_MAGIC = 0x5457_544D
MAP_MAX_RANK = 5
(
    MAP_SHAPE,  # MAP_MAGIC | rank << 32 | swizzle << 40 | bytes of an element << 48 | NumberType << 56
    MAP_ADDRESS,
    MAP_SIZES,  # elements of dimensions 0 (innermost) to 4
    _,
    _,
    _,
    _,
    MAP_STRIDES,  # bytes between elements of dimensions 1 to 4
    _,
    _,
    _,
    MAP_BOX,  # elements of a box, 12 bits a dimension
) = range(12)
MAP_BOX_BITS = 12
MAP_BYTES = 128
MAP_SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}  #: bytes of a swizzle -> its number, as in a matrix descriptor


class MmaShape(IntEnum):
    M16N8K8 = 0
    M16N8K16 = 1
    M16N8K32 = 2
    M16N8K4 = 3
    M8N8K4 = 4
    M8N8K16 = 5


class SpecialRegister(IntEnum):
    TID_X = 0
    TID_Y = 1
    TID_Z = 2
    CTAID_X = 3
    CTAID_Y = 4
    CTAID_Z = 5
    LANEID = 6
    WARPID = 7
    SMID = 8
    CLOCKLO = 9
    CLOCKHI = 10
    EQMASK = 11
    LTMASK = 12
    LEMASK = 13
    GTMASK = 14
    GEMASK = 15
    NCTAID_X = 16
    NTID_X = 17
    CGACTAID = 18
    GLOBALTIMERLO = 19
    GLOBALTIMERHI = 20
    NTID_Y = 21
    NTID_Z = 22
    NCTAID_Y = 23
    NCTAID_Z = 24
    VIRTID = 25  # warp in its block << 8


#: special registers that are read through the memory pipeline
THREAD_NUMBERS = frozenset((SpecialRegister.TID_X, SpecialRegister.TID_Y, SpecialRegister.TID_Z))
