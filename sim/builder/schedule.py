"""List scheduling inside blocks: long latencies first, within a budget of registers.

An order is chosen as if one warp ran alone: of the instructions whose sources are
there, the one on the longest path to the block's end goes first. Loads, being the
longest, gather at the front, so that many are in flight; when the registers in use
reach the budget, what frees registers goes first. The budget is what keeps the
most warps resident, or what the given order needs, if that is more.
"""

from __future__ import annotations

from heapq import heappop, heappush

from sim.builder.liveness import Ranges
from sim.builder.machine import Block, Code, Lane, Machine
from sim.isa import Op, Space, TimingClass

REGISTER_BUDGET = 30  #: 32 as the compiler reports them: 64 warps of 32 threads fill 65536 registers
_LATENCY = {
    TimingClass.SETP: 13, TimingClass.XU: 20, TimingClass.CONVERT: 18, TimingClass.FP64: 16, TimingClass.S2R: 25,
    TimingClass.LDC: 30, TimingClass.SHUFFLE: 24, TimingClass.VOTE: 12, TimingClass.UNIFORM: 10, TimingClass.IMAD_WIDE: 5,
    TimingClass.HMMA_16816: 33, TimingClass.HMMA_1688: 20, TimingClass.FP16: 5,
}  # fmt: skip
#: Rough cycles from issue to result, for ordering only; profiles hold the real ones.
_GLOBAL_LATENCY, _SHARED_LATENCY = 400, 28
_FENCES = frozenset((Op.BAR, Op.WARPSYNC, Op.MEMBAR, Op.DEPBAR, Op.LDGDEPBAR, Op.BSYNC))
_LAST = frozenset((Op.BRA, Op.EXIT, Op.BSSY))


def _latency(m: Machine) -> int:
    if m.cls is TimingClass.LOAD_STORE:
        return _SHARED_LATENCY if m.space is Space.SHARED else _GLOBAL_LATENCY
    return _LATENCY.get(m.cls, 4)


def schedule(code: Code) -> None:
    """Reorder the instructions of every block."""
    ranges = Ranges(code)
    for block in code.blocks:
        if len(block.code) > 2:
            _Scheduler(block, ranges, ranges.live_out[block.number]).run()


class _Scheduler:
    def __init__(self, block: Block, ranges: Ranges, live_out: int) -> None:
        self.block = block
        self.code = block.code
        self.ranges = ranges
        self.live_out = live_out
        n = len(self.code)
        self.after: list[list[int]] = [[] for _ in range(n)]  # instructions that wait for this one
        self.delay: list[list[int]] = [[] for _ in range(n)]
        self.before = [0] * n  # how many it waits for
        self.address: list[object] = []  # of plain loads and stores: the register and the instruction that set it
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []

    def run(self) -> None:
        self._dependences()
        priority = self._priorities()
        self.block.code = [self.code[k] for k in self._order(priority)]

    # --- dependences
    def _edge(self, first: int, then: int, cycles: int) -> None:
        if first != then:
            self.after[first].append(then)
            self.delay[first].append(cycles)
            self.before[then] += 1

    def _dependences(self) -> None:
        base = self.ranges.base
        defined: dict[int, int] = {}
        readers: dict[int, list[int]] = {}
        memory = _MemoryOrder(self)
        for k, m in enumerate(self.code):
            reads, writes = [], []
            for reg, word, count in m.reads():
                reads.extend(range(base[reg.id] + word, base[reg.id] + word + count))
            tests = [base[p.id] for p in m.predicate_reads()]
            if m.dst is not None and m.nd:
                first = base[m.dst.reg.id] + m.dst.word
                writes.extend(range(first, first + m.nd))
            sets = [base[p.id] for p in m.predicate_writes()]
            for w in (*reads, *tests):
                if w in defined:
                    self._edge(defined[w], k, _latency(self.code[defined[w]]))
                readers.setdefault(w, []).append(k)
            self.address.append(None)
            if m.op in (Op.LD, Op.ST) and isinstance(m.a, Lane):
                first = base[m.a.reg.id] + m.a.word
                self.address[k] = (first, *(defined.get(w, -1) for w in range(first, first + m.na)))
            for w in (*writes, *sets):
                for reader in readers.pop(w, ()):
                    self._edge(reader, k, 1)
                if w in defined:
                    self._edge(defined[w], k, 1)
                defined[w] = k
            self.reads.append(reads)
            self.writes.append(writes)
            memory.add(k, m)

    def _priorities(self) -> list[int]:
        priority = [0] * len(self.code)
        for k in range(len(self.code) - 1, -1, -1):
            best = 0
            for j, cycles in zip(self.after[k], self.delay[k], strict=True):
                best = max(best, priority[j] + cycles)
            priority[k] = best
        return priority

    # --- order
    def _order(self, priority: list[int]) -> list[int]:
        pressure = _Pressure(self)
        budget = max(REGISTER_BUDGET, pressure.peak())
        n = len(self.code)
        waiting = list(self.before)
        earliest = [0] * n
        soon: list[tuple[int, int]] = []  # (time, instruction) not yet startable
        ready: list[tuple[int, int]] = []  # (-priority, instruction)
        for k in range(n):
            if waiting[k] == 0:
                heappush(ready, (-priority[k], k))
        order: list[int] = []
        now = 0
        while len(order) < n:
            while soon and soon[0][0] <= now:
                _, k = heappop(soon)
                heappush(ready, (-priority[k], k))
            chosen = self._choose(ready, soon, pressure, budget)
            if chosen is None:
                now = max(now + 1, soon[0][0])
                continue
            order.append(chosen)
            pressure.issue(chosen)
            now = max(now, earliest[chosen]) + 1
            for j, cycles in zip(self.after[chosen], self.delay[chosen], strict=True):
                earliest[j] = max(earliest[j], now - 1 + cycles)
                waiting[j] -= 1
                if waiting[j] == 0:
                    heappush(soon, (earliest[j], j))
        return order

    def _choose(self, ready: list[tuple[int, int]], soon: list[tuple[int, int]], pressure: _Pressure, budget: int) -> int | None:
        """Take the best startable instruction out of its heap; None to wait."""
        if ready:
            best = ready[0][1]
            if pressure.now + pressure.growth(best) <= budget or pressure.growth(best) <= 0:
                heappop(ready)
                return best
        elif soon and pressure.now < budget:
            return None
        options = [(pressure.growth(k), at, k) for at, (_, k) in enumerate(ready)]
        later = [(pressure.growth(k), k) for _, k in soon]
        frees = min((g for g, _, _ in options), default=1)
        if frees <= 0 or not later or min(later)[0] > 0:
            if not options:
                return None
            _, _, k = min(options, key=lambda o: (max(o[0], 0), o[1] if o[0] <= 0 else o[2]))
            ready[:] = [r for r in ready if r[1] != k]
            _restore(ready)
            return k
        _, k = min((time, k) for time, k in soon if pressure.growth(k) <= 0)
        soon[:] = [r for r in soon if r[1] != k]
        _restore(soon)
        return k


def _restore(heap: list[tuple[int, int]]) -> None:
    from heapq import heapify

    heapify(heap)


class _Pressure:
    """R registers in use as instructions are issued in the chosen order."""

    def __init__(self, owner: _Scheduler) -> None:
        self.reads = [[w for w in dict.fromkeys(reads) if owner.ranges.registers >> w & 1] for reads in owner.reads]
        self.writes = [[w for w in writes if owner.ranges.registers >> w & 1] for writes in owner.writes]
        self.out = owner.live_out & owner.ranges.registers
        self.uses: dict[int, int] = {}
        self.live: set[int] = set()
        written: set[int] = set()
        touched = 0
        for reads, writes in zip(self.reads, self.writes, strict=True):
            for w in reads:
                self.uses[w] = self.uses.get(w, 0) + 1
                touched |= 1 << w
                if w not in written:
                    self.live.add(w)
            written.update(writes)
            for w in writes:
                touched |= 1 << w
        self.through = (self.out & ~touched).bit_count()  # in use all along
        self.now = len(self.live) + self.through

    def peak(self) -> int:
        """The most registers that the given order needs."""
        saved = (dict(self.uses), set(self.live), self.now)
        highest = self.now
        for k in range(len(self.reads)):
            self.issue(k)
            highest = max(highest, self.now)
        self.uses, self.live, self.now = saved
        return highest

    def growth(self, k: int) -> int:
        """Registers that instruction `k` would add (or, negative, free)."""
        writes = self.writes[k]
        change = sum(1 for w in writes if w not in self.live)
        for w in self.reads[k]:
            if self.uses[w] == 1 and not self.out >> w & 1 and w not in writes:
                change -= 1
        return change

    def issue(self, k: int) -> None:
        writes = self.writes[k]
        for w in self.reads[k]:
            self.uses[w] -= 1
            if self.uses[w] == 0 and not self.out >> w & 1 and w not in writes:
                self.live.discard(w)
        for w in writes:
            if self.uses.get(w, 0) or self.out >> w & 1:
                self.live.add(w)
            else:
                self.live.discard(w)
        self.now = len(self.live) + self.through


class _MemoryOrder:
    """Dependences through memory, barriers, and the block's ends."""

    def __init__(self, owner: _Scheduler) -> None:
        self.owner = owner
        self.stores: dict[Space, list[int]] = {Space.GLOBAL: [], Space.SHARED: [], Space.LOCAL: []}
        self.loads: dict[Space, list[int]] = {Space.GLOBAL: [], Space.SHARED: [], Space.LOCAL: []}
        self.since: list[int] = []  # instructions since the last fence that a fence must follow
        self.fence = -1

    def add(self, k: int, m: Machine) -> None:
        owner = self.owner
        if m.op in _LAST:
            for j in range(k):
                if m.op is not Op.BSSY:
                    owner._edge(j, k, 1)
            if m.op is Op.BSSY and self.fence >= 0:
                owner._edge(self.fence, k, 1)
            return
        if m.op in _FENCES:
            everything = m.op is Op.BSYNC
            for j in range(k) if everything else self.since:
                owner._edge(j, k, 1)
            if self.fence >= 0:
                owner._edge(self.fence, k, 1)
            self.fence = k
            self.since = []
            for pending in (*self.stores.values(), *self.loads.values()):
                pending.clear()
            return
        if self.fence >= 0 and owner.code[self.fence].op is Op.BSYNC:
            owner._edge(self.fence, k, 1)
        if m.cls is not TimingClass.LOAD_STORE and m.op is not Op.VOTE and m.op is not Op.SHFL and m.text != "CS2R.32":
            return
        if self.fence >= 0:
            owner._edge(self.fence, k, 1)
        self.since.append(k)
        if m.op is Op.LDGSTS:
            self._access(k, Space.SHARED, True)
            self._access(k, Space.GLOBAL, False)
        elif m.cls is TimingClass.LOAD_STORE:
            self._access(k, m.space, m.op not in (Op.LD, Op.LDSM))

    def _access(self, k: int, space: Space, stores: bool) -> None:
        owner = self.owner
        earlier = [*self.stores[space], *self.loads[space]] if stores else self.stores[space]
        for j in earlier:
            if not self._apart(j, k):
                owner._edge(j, k, 1)
        (self.stores if stores else self.loads)[space].append(k)

    def _apart(self, j: int, k: int) -> bool:
        """True when two accesses with one address and different offsets surely do not touch the same bytes."""
        a, b = self.owner.code[j], self.owner.code[k]
        if self.owner.address[j] is None or self.owner.address[j] != self.owner.address[k]:
            return False
        return a.y + a.width <= b.y or b.y + b.width <= a.y
