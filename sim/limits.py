"""How much of a GPU the core's arrays have room for; profiles are checked against it."""

from __future__ import annotations

MAX_SMS = 256
MAX_SUBCORES = 4
MAX_WARPS = 64  #: an SM
MAX_SLOTS = 32  #: resident blocks of an SM
MAX_CLUSTER = 16  #: blocks of a cluster
MAX_SHARED_BYTES = 256 * 1024  #: an SM
MAX_L1_LINES = 2048
MAX_ENTRIES = 1024  #: loads of an SM that wait for L2
MAX_QUEUE = 16  #: instructions in a sub-core's memory queue
MAX_PRODUCTS = 8  #: warpgroup products in a sub-core's queue
MAX_CODE_LINES = 1024  #: lines of either instruction cache
MAX_CONSTANT_LINES = 256  #: lines of constant bank 0
