"""Tidying the blocks once moves are gone: no empty blocks, no branches to what comes next."""

from __future__ import annotations

from sim.builder.machine import Block, Code
from sim.isa import Op


def tidy_branches(code: Code) -> None:
    """Drop empty blocks and branches to the following block; branches to a branch go where that one goes."""
    changed = True
    while changed:
        changed = _retarget(code) | _drop_branches(code)
        kept = [b for b in code.blocks if b.code]
        changed |= len(kept) < len(code.blocks)
        if len(kept) < len(code.blocks):
            _retarget(code)
            code.blocks = kept
    for number, block in enumerate(code.blocks):
        block.number = number


def _retarget(code: Code) -> bool:
    following: dict[int, Block] = dict(zip((id(b) for b in code.blocks), code.blocks[1:], strict=False))
    changed = False
    for block in code.blocks:
        for m in block.code:
            if m.target is None:
                continue
            target = _final(m.target, following, m.op is Op.BRA)
            if target is not m.target:
                m.target = target
                changed = True
    return changed


def _final(target: Block, following: dict[int, Block], through: bool) -> Block:
    """Where a branch ends up: past empty blocks and, with `through`, past blocks that only branch on."""
    for _ in range(len(following)):
        if not target.code and id(target) in following:
            target = following[id(target)]
        elif through and len(target.code) == 1 and target.code[0].op is Op.BRA and target.code[0].guard is None:
            onward = target.code[0].target
            assert onward is not None
            target = onward
        else:
            break
    return target


def _drop_branches(code: Code) -> bool:
    changed = False
    for block, following in zip(code.blocks, code.blocks[1:], strict=False):
        if block.code and block.code[-1].op is Op.BRA and block.code[-1].target is following:
            block.code.pop()
            changed = True
    return changed
