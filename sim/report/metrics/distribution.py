"""How evenly the work lay over SMs, L2 slices and DRAM channels; the tail; DRAM's own counts."""

from __future__ import annotations

from collections.abc import Callable

from sim.counters import Mem, Sm
from sim.report.counts import Counts
from sim.report.metric import Metric, Value, in_section, percent, ratio

_d = in_section("WorkloadDistribution")
_t = in_section("Tail")
_r = in_section("Dram")


def _spread(
    root: str, label: str, per_unit: Callable[[Counts], tuple[Value, Value, Value, float]], note: str = ""
) -> list[Metric]:
    """Average, minimum, maximum and sum of one figure over the instances of a unit."""

    def one(k: int, suffix: str, word: str) -> Metric:
        meaning = f"{label.replace(' Cycles', '')} cycles: {word.lower()} over the instances."
        return _d(f"{root}.{suffix}", f"{word} {label}", "cycle", lambda c: per_unit(c)[k], meaning, note)

    spread = [one(0, "avg", "Average"), one(1, "min", "Minimum"), one(2, "max", "Maximum"), one(3, "sum", "Total")]
    return [metric for metric in spread if metric.name != "sm__cycles_active.avg"]  # that one is in speed.py


def _sm_active(c: Counts) -> tuple[Value, Value, Value, float]:
    return c.active / c.sms, c.sm_min(Sm.ACTIVE), c.sm_max(Sm.ACTIVE), c.active


def _subcore_active(c: Counts) -> tuple[Value, Value, Value, float]:
    mean, least, most, total = _sm_active(c)
    return mean, least, most, total * c.subcores


def _channel_active(c: Counts) -> tuple[Value, Value, Value, float]:
    busy = c.dram_busy
    return float(busy.mean()), int(busy.min()), int(busy.max()), int(busy.sum())


def useful_bytes(c: Counts) -> float:
    """Bytes that a thread asked for, in percent of the bytes that DRAM moved."""
    return percent(c.mem(Mem.DRAM_BYTES_ASKED), c.dram_bytes)


METRICS = (
    *_spread("sm__cycles_active", "SM Active Cycles", _sm_active),
    *_spread("smsp__cycles_active", "SMSP Active Cycles", _subcore_active,
             "A sub-core counts as active while its SM is."),
    *_spread("l1tex__cycles_active", "L1 Active Cycles", _sm_active, "L1 counts as active while its SM is."),
    _d("lts__cycles_active.avg", "Average L2 Active Cycles", "cycle",
       lambda c: ratio(c.mem(Mem.L2_CYCLES_BUSY), c.profile.l2.slices), "Busy cycles, mean over L2 slices."),
    _d("lts__cycles_active.sum", "Total L2 Active Cycles", "cycle", lambda c: c.mem(Mem.L2_CYCLES_BUSY),
       "Busy cycles, summed over L2 slices."),
    *_spread("dram__cycles_active", "DRAM Active Cycles", _channel_active, "In SM cycles with data on the bus."),
    _d("sm__cycles_elapsed.sum", "Total SM Elapsed Cycles", "cycle", lambda c: c.elapsed_sm,
       "Elapsed cycles of all SMs."),
    _d("smsp__cycles_elapsed.sum", "Total SMSP Elapsed Cycles", "cycle", lambda c: c.elapsed_subcore,
       "Elapsed cycles of all sub-cores."),
    _d("l1tex__cycles_elapsed.sum", "Total L1 Elapsed Cycles", "cycle", lambda c: c.elapsed_sm,
       "Elapsed cycles of all L1 caches."),
    _d("lts__cycles_elapsed.sum", "Total L2 Elapsed Cycles", "cycle", lambda c: c.elapsed * c.profile.l2.slices,
       "Elapsed cycles of all L2 slices.", "In SM cycles."),
    _d("dram__cycles_elapsed.sum", "Total DRAM Elapsed Cycles", "cycle", lambda c: c.elapsed * len(c.dram_busy),
       "Elapsed cycles of all DRAM channels.", "In SM cycles."),
    _t("tailwave__waves", "Waves", "wave", lambda c: c.waves.count, "Waves of blocks, the last one counted whole."),
    _t("tailwave__blocks_per_wave", "Blocks Per Wave", "block", lambda c: c.waves.blocks_per_wave,
       "Blocks that the GPU holds at once: SMs times blocks an SM."),
    _t("tailwave__full_waves", "Full Waves", "wave", lambda c: c.waves.full, "Waves with a block in every place."),
    _t("tailwave__last_wave_blocks", "Blocks In Last Wave", "block", lambda c: c.waves.last_blocks,
       "Blocks left for the last wave."),
    _t("tailwave__tail_utilization.pct", "Tail Utilization", "%", lambda c: 100.0 * c.waves.last_utilization,
       "Places of the last wave that hold a block."),
    _t("tailwave__wave_efficiency.pct", "Wave Efficiency", "%", lambda c: 100.0 * c.waves.efficiency,
       "Places of all waves that hold a block."),
    _t("tailwave__last_wave_cycles.max", "Last Wave Cycles", "cycle", lambda c: c.tail.last_wave_cycles,
       "From the start of the last wave's first block to the end of the last block."),
    _t("tailwave__idle_after_last_block.sum", "Idle SM Cycles", "cycle", lambda c: c.tail.idle_sm_cycles,
       "Cycles between an SM's last block and the last block of all, summed over SMs."),
    _t("tailwave__tail_cycles.avg", "Cycles Lost To Tail", "cycle", lambda c: c.tail.lost_cycles,
       "Idle SM cycles spread over all SMs: what a perfect ending would save."),
    _t("tailwave__tail_cycles.pct", "Lost To Tail", "%", lambda c: 100.0 * c.tail.lost_fraction,
       "Cycles lost to the tail, in percent of the time from the first block's start to the last one's end."),
    _r("tailwave__dram_bursts_read.sum", "Read Bursts", "burst", lambda c: c.mem(Mem.DRAM_READ_BURSTS),
       "Bursts that DRAM channels read."),
    _r("tailwave__dram_bursts_write.sum", "Write Bursts", "burst", lambda c: c.mem(Mem.DRAM_WRITE_BURSTS),
       "Bursts that DRAM channels wrote."),
    _r("tailwave__dram_row_hits.sum", "Row Hits", "burst", lambda c: c.mem(Mem.DRAM_ROW_HIT),
       "Bursts that found their row open."),
    _r("tailwave__dram_row_misses.sum", "Row Misses", "burst", lambda c: c.mem(Mem.DRAM_ROW_MISS),
       "Bursts that found their bank idle and opened a row."),
    _r("tailwave__dram_row_conflicts.sum", "Row Conflicts", "burst", lambda c: c.mem(Mem.DRAM_ROW_CONFLICT),
       "Bursts that had to close another row first."),
    _r("tailwave__dram_row_hit_rate.pct", "Row Hit Rate", "%",
       lambda c: percent(c.mem(Mem.DRAM_ROW_HIT),
                         c.mem(Mem.DRAM_ROW_HIT, Mem.DRAM_ROW_MISS, Mem.DRAM_ROW_CONFLICT)),
       "Bursts that found their row open, in percent of all."),
    _r("tailwave__dram_turnarounds.sum", "Bus Turnarounds", "turn", lambda c: c.mem(Mem.DRAM_TURNAROUNDS),
       "Changes of a channel's bus between reading and writing."),
    _r("tailwave__dram_refreshes.sum", "Refreshes", "refresh", lambda c: c.mem(Mem.DRAM_REFRESHES),
       "Refreshes that channels made."),
    _r("tailwave__dram_bytes_asked.sum", "Bytes Asked For", "byte", lambda c: c.mem(Mem.DRAM_BYTES_ASKED),
       "Bytes of the moved ones that a thread asked for."),
    _r("tailwave__dram_useful_bytes.pct", "Useful Bytes", "%", useful_bytes,
       "Bytes that a thread asked for, in percent of the bytes that DRAM moved."),
)  # fmt: skip
