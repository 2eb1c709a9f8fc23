"""List scheduling inside blocks: long latencies first, within a budget of registers.

Of the instructions whose sources are there, the one on the longest path to the
block's end goes first, in steps of a few instructions, within which the given order
stays; results of arithmetic count as there at once, as other warps fill a few cycles.
Loads, being the longest, gather at the front, so that many are in flight; when the
registers in use reach the budget, what frees registers goes first. The budget is what
keeps the most warps resident, or what the given order needs, if that is more. Where sums fill
most registers, only what is near is moved: loads from far ahead would leave none for the sums.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from sim.builder.liveness import Ranges
from sim.builder.machine import Block, Code, Lane, Machine
from sim.isa import Op, Space, TimingClass

REGISTER_BUDGET = 30  #: 32 as the compiler reports them: 64 warps of 32 threads fill 65536 registers
ARITHMETIC = 6  #: results with up to so many cycles are not waited for
SLACK = 4  #: registers that a better order is taken to save over the given one
LARGE = 128  #: registers of a given order from which on sums fill most of them, and loads shall not crowd them out
ROOM = 16  #: registers that loads in flight get in such a block
MOST = 248  #: registers that are numbered without gaps becoming too many
WINDOW = 64  #: instructions that one may be moved ahead of in such a block
PRIORITY_STEP = 64  #: cycles of the path to the end that count as equal
PREDICATE_BUDGET = 6  #: of seven
_T = TimingClass
_LATENCY = {
    _T.SETP: 13, _T.XU: 20, _T.CONVERT: 18, _T.FP64: 16, _T.S2R: 25, _T.TID: 25, _T.LDC: 30, _T.SHUFFLE: 24,
    _T.VOTE: 12, _T.UNIFORM: 10, _T.IMAD_WIDE: 5, _T.HMMA_16816: 33, _T.HMMA_1688: 20, _T.FP16: 5,
}  # fmt: skip
#: Rough cycles from issue to result, for ordering only; profiles hold the real ones.
_GLOBAL_LATENCY, _SHARED_LATENCY = 400, 28
_FENCES = frozenset(
    (Op.BAR, Op.WARPSYNC, Op.MEMBAR, Op.DEPBAR, Op.LDGDEPBAR, Op.BSYNC, Op.MBARRIER, Op.TMA, Op.TMA_COMMIT)
    + (Op.WARPGROUP_ARRIVE, Op.WARPGROUP_COMMIT, Op.WARPGROUP_DEPBAR, Op.SETMAXREG)
    + (Op.CLUSTER_ARRIVE, Op.CLUSTER_WAIT, Op.COPY_ARRIVE)
)
_ORDERED = frozenset((Op.VOTE, Op.SHFL, Op.ELECT, Op.HGMMA))  #: stay between fences, though no memory instructions
_COLUMNS = 63  # of HGMMA's X: columns / 8, of which each takes four cycles
_FIRST = 1 << 30  # the priority of what is pinned
_CHEAP = frozenset((_T.ALU, _T.SETP, _T.IMAD, _T.UNIFORM, _T.MOV))
_LAST = frozenset((Op.BRA, Op.EXIT, Op.BSSY))


def _latency(m: Machine) -> int:
    if m.op is Op.HGMMA:
        return 4 * (m.x & _COLUMNS)
    if m.cls is TimingClass.LOAD_STORE:
        return _SHARED_LATENCY if m.space is Space.SHARED else _GLOBAL_LATENCY
    return _LATENCY.get(m.cls, 4)


def schedule(code: Code, budget: int = REGISTER_BUDGET) -> None:
    """Reorder the instructions of every block, within `budget` registers where the given order needs no more."""
    ranges = Ranges(code)
    products = _words_of_products(code, ranges)
    for block in code.blocks:
        if len(block.code) > 2:
            _Scheduler(block, ranges, ranges.live_out[block.number], budget, products).run()


def _words_of_products(code: Code, ranges: Ranges) -> set[int]:
    """Words that products of warpgroups write and read, some time after they are issued."""
    found: set[int] = set()
    for block in code.blocks:
        for m in block.code:
            if m.op is Op.HGMMA:
                for operand, count in ((m.dst, m.nd), (m.a, m.na)):
                    if isinstance(operand, Lane) and operand.reg.kind == "R":
                        first = ranges.base[operand.reg.id] + operand.word
                        found.update(range(first, first + count))
    return found


class _Scheduler:
    def __init__(self, block: Block, ranges: Ranges, live_out: int, budget: int, products: set[int]) -> None:
        self.budget = budget
        self.products = products
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
            reads: list[int] = []
            writes: list[int] = []
            for reg, word, count in m.reads():
                reads.extend(range(base[reg.id] + word, base[reg.id] + word + count))
            tests = [base[p.id] for p in m.predicate_reads()]
            if m.dst is not None and m.nd:
                first = base[m.dst.reg.id] + m.dst.word
                writes.extend(range(first, first + m.nd))
            sets = [base[p.id] for p in m.predicate_writes()]
            for first in {defined[w] for w in (*reads, *tests) if w in defined}:
                self._edge(first, k, _latency(self.code[first]))
            for w in (*reads, *tests):
                readers.setdefault(w, []).append(k)
            self.address.append(None)
            if m.op in (Op.LD, Op.ST) and isinstance(m.a, Lane):
                first = base[m.a.reg.id] + m.a.word
                self.address[k] = (first, *(defined.get(w, -1) for w in range(first, first + m.na)))
            earlier = {defined[w] for w in (*writes, *sets) if w in defined}
            for w in (*writes, *sets):
                earlier.update(readers.pop(w, ()))
                defined[w] = k
            for first in earlier:
                self._edge(first, k, 1)
            self.reads.append(reads)
            self.writes.append(writes)
            memory.add(k, m, not self.products.isdisjoint((*reads, *writes)))

    def _priorities(self) -> list[int]:
        priority = [0] * len(self.code)
        for k in range(len(self.code) - 1, -1, -1):
            best = 0
            for j, cycles in zip(self.after[k], self.delay[k], strict=True):
                best = max(best, priority[j] + cycles)
            priority[k] = best
        steps = [_FIRST if m.pinned else p // PRIORITY_STEP for p, m in zip(priority, self.code, strict=True)]
        for k in self._decides_branch():
            steps[k] = max(steps[k], _FIRST - 1)
        return steps

    def _decides_branch(self) -> set[int]:
        """Arithmetic that the guard of the block's branch comes from.

        It goes as early as it can: a guard waits longest of all arithmetic for its
        predicate, and in a loop the other work of a turn hides that.
        """
        feeds: list[list[int]] = [[] for _ in self.code]
        for first, (thens, delays) in enumerate(zip(self.after, self.delay, strict=True)):
            for then, cycles in zip(thens, delays, strict=True):
                if cycles > 1:
                    feeds[then].append(first)
        found: set[int] = set()
        open_ = [k for k, m in enumerate(self.code) if m.op is Op.BRA]
        while open_:
            for k in feeds[open_.pop()]:
                if self.code[k].cls in _CHEAP and k not in found:
                    found.add(k)
                    open_.append(k)
        return found

    # --- order
    def _order(self, priority: list[int]) -> list[int]:
        pressure = _Pressure(self)
        peak = pressure.peak()
        n = len(self.code)
        large = peak > LARGE
        budget = min(peak + ROOM, MOST) if large else max(self.budget, peak - SLACK)
        window = WINDOW if large else n
        waiting = list(self.before)
        earliest = [0] * n
        far = [k for k in range(n) if waiting[k] == 0]  # startable, but beyond the window; a sorted list is a heap
        soon: list[tuple[int, int]] = []  # (time, instruction) not yet startable
        ready: list[tuple[int, int]] = []  # (-priority, instruction)
        order: list[int] = []
        issued = [False] * (n + 1)
        now = first = 0
        while len(order) < n:
            while issued[first]:
                first += 1
            while soon and soon[0][0] <= now:
                heappush(far, heappop(soon)[1])
            while far and far[0] < first + window:
                k = heappop(far)
                heappush(ready, (-priority[k], k))
            chosen = self._choose(ready, soon, pressure, budget, first + window)
            if chosen is None:
                now = max(now + 1, soon[0][0])
                continue
            order.append(chosen)
            issued[chosen] = True
            pressure.issue(chosen)
            now = max(now, earliest[chosen]) + 1
            for j, cycles in zip(self.after[chosen], self.delay[chosen], strict=True):
                earliest[j] = max(earliest[j], now - 1 + (cycles if cycles > ARITHMETIC else 1))
                waiting[j] -= 1
                if waiting[j] == 0:
                    heappush(soon, (earliest[j], j))
        return order

    def _choose(
        self, ready: list[tuple[int, int]], soon: list[tuple[int, int]], pressure: _Pressure, budget: int, end: int
    ) -> int | None:
        """Take the best startable instruction before `end` out of its heap; None to wait."""
        startable = ready
        if ready and pressure.blocks(ready[0][1]):
            startable = sorted(entry for entry in ready if not pressure.blocks(entry[1]))
        if startable:
            best = startable[0][1]
            if pressure.now + pressure.cost(best) <= budget or pressure.cost(best) <= 0:
                _take(ready, best)
                return best
        elif soon and pressure.now < budget:
            return None
        options = [(pressure.cost(k), at, k) for at, (_, k) in enumerate(startable) if not pressure.blocks(k)]
        later = [(time, k) for time, k in soon if k < end and pressure.cost(k) <= 0 and not pressure.blocks(k)]
        frees = min((g for g, _, _ in options), default=1)
        if frees > 0 and later:
            _, k = min(later)
            _take(soon, k)
            return k
        if options:
            _, _, k = min(options, key=lambda o: (max(o[0], 0), o[1] if o[0] <= 0 else o[2]))
        elif soon:
            return None
        else:
            k = min(k for _, k in ready)
        _take(ready, k)
        return k


def _take(heap: list[tuple[int, int]], k: int) -> None:
    """Remove instruction `k`."""
    if heap[0][1] == k:
        heappop(heap)
        return
    heap[:] = [entry for entry in heap if entry[1] != k]
    heapify(heap)


class _Pressure:
    """R registers in use as instructions are issued in the chosen order.

    Each write of a word makes a new version of it, so that a register that is set
    again later counts as free in between.
    """

    def __init__(self, owner: _Scheduler) -> None:
        registers = owner.ranges.registers
        self.makes_sums = [m.op is Op.HGMMA or m.phantom for m in owner.code]
        current: dict[int, int] = {}  # word -> version
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []
        self.uses: list[int] = []  # by version: reads to come
        for reads, writes in zip(owner.reads, owner.writes, strict=True):
            versions = []
            for w in dict.fromkeys(reads):
                if registers >> w & 1:
                    v = current.get(w)
                    if v is None:
                        v = current[w] = len(self.uses)
                        self.uses.append(0)
                    self.uses[v] += 1
                    versions.append(v)
            self.reads.append(versions)
            made = []
            for w in writes:
                if registers >> w & 1:
                    current[w] = len(self.uses)
                    made.append(len(self.uses))
                    self.uses.append(0)
            self.writes.append(made)
        out = owner.live_out & registers
        through = 0
        for w, v in current.items():
            if out >> w & 1:
                self.uses[v] += 1  # never freed
        touched = 0
        for w in current:
            touched |= 1 << w
        through = (out & ~touched).bit_count()
        made_here = {v for versions in self.writes for v in versions}
        self.now = through + sum(1 for v in range(len(self.uses)) if v not in made_here)
        self._count_predicates(owner)

    def _count_predicates(self, owner: _Scheduler) -> None:
        """Predicates in use, and how often each is still read."""
        base = owner.ranges.base
        self.sets = [[base[p.id] for p in m.predicate_writes()] for m in owner.code]
        self.tests = [list(dict.fromkeys(base[p.id] for p in m.predicate_reads())) for m in owner.code]
        self.tested: dict[int, int] = {}
        made: set[int] = set()
        out = owner.live_out & owner.ranges.predicates
        self.kept = {w for w in range(out.bit_length()) if out >> w & 1}  # needed in later blocks
        self.predicates = self.kept - {w for sets in self.sets for w in sets}
        for tests, sets in zip(self.tests, self.sets, strict=True):
            for w in tests:
                self.tested[w] = self.tested.get(w, 0) + 1
                if w not in made:
                    self.predicates.add(w)
            made.update(sets)

    def blocks(self, k: int) -> bool:
        """True when instruction `k` sets a predicate and enough are in use."""
        return bool(self.sets[k]) and len(self.predicates) >= PREDICATE_BUDGET

    def peak(self) -> int:
        """The most registers that the given order needs."""
        uses, now, highest = list(self.uses), self.now, self.now
        for reads, writes in zip(self.reads, self.writes, strict=True):
            for v in reads:
                uses[v] -= 1
                now -= uses[v] == 0
            now += sum(1 for v in writes if uses[v])
            highest = max(highest, now)
        return highest

    def growth(self, k: int) -> int:
        """Registers that instruction `k` would add (or, negative, free)."""
        change = 0
        for v in self.writes[k]:
            change += self.uses[v] > 0
        for v in self.reads[k]:
            change -= self.uses[v] == 1
        return change

    def cost(self, k: int) -> int:
        """The same, of what can be put off; sums are there to be made."""
        return min(self.growth(k), 0) if self.makes_sums[k] else self.growth(k)

    def issue(self, k: int) -> None:
        self.now += self.growth(k)
        for v in self.reads[k]:
            self.uses[v] -= 1
        for w in self.tests[k]:
            self.tested[w] -= 1
            if self.tested[w] == 0 and w not in self.kept:
                self.predicates.discard(w)
        self.predicates.update(w for w in self.sets[k] if self.tested.get(w, 0) or w in self.kept)


class _MemoryOrder:
    """Dependences through memory, barriers, and the block's ends."""

    def __init__(self, owner: _Scheduler) -> None:
        self.owner = owner
        self.stores: dict[Space, list[int]] = {Space.GLOBAL: [], Space.SHARED: [], Space.LOCAL: []}
        self.loads: dict[Space, list[int]] = {Space.GLOBAL: [], Space.SHARED: [], Space.LOCAL: []}
        self.since: list[int] = []  # instructions since the last fence that a fence must follow
        self.fence = -1
        self.product = -1  # the last product of a warpgroup

    def add(self, k: int, m: Machine, of_products: bool) -> None:
        """`of_products`: it touches what products read or write, and so stays between the fences around it."""
        owner = self.owner
        if m.op in _LAST:
            for j in range(k):
                if m.op is not Op.BSSY:
                    owner._edge(j, k, 1)
            if m.op is Op.BSSY and self.fence >= 0:
                owner._edge(self.fence, k, 1)
            if m.op is Op.EXIT:  # a guarded one may stand inside a block
                self._set_fence(k)
            return
        if m.op in _FENCES or (m.op is Op.NOP and not m.phantom):
            everything = m.op is Op.BSYNC
            for j in range(k) if everything else self.since:
                owner._edge(j, k, 1)
            if self.fence >= 0:
                owner._edge(self.fence, k, 1)
            self._set_fence(k)
            return
        if self.fence >= 0 and owner.code[self.fence].op is Op.BSYNC:
            owner._edge(self.fence, k, 1)
        ordered = m.op in _ORDERED or m.text == "CS2R.32" or of_products
        if m.cls is not TimingClass.LOAD_STORE and not ordered:
            return
        if self.fence >= 0:
            owner._edge(self.fence, k, 1)
        self.since.append(k)
        if m.op is Op.LDGSTS:
            self._access(k, Space.SHARED, True)
            self._access(k, Space.GLOBAL, False)
        elif m.op is Op.HGMMA:
            self._access(k, Space.SHARED, False)
            if self.product >= 0:
                owner._edge(self.product, k, 1)
            self.product = k
        elif m.cls is TimingClass.LOAD_STORE:
            self._access(k, m.space, m.op not in (Op.LD, Op.LDSM))

    def _set_fence(self, k: int) -> None:
        self.fence = k
        self.since = []
        for pending in (*self.stores.values(), *self.loads.values()):
            pending.clear()

    def _access(self, k: int, space: Space, stores: bool) -> None:
        owner = self.owner
        if space is Space.GENERIC:  # of the cluster, in which the block's own lies
            space = Space.SHARED
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
