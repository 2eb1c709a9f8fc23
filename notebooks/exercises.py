"""How the exercises at the end of a lesson check themselves."""

from collections.abc import Mapping


def check(goals: Mapping[str, bool]) -> None:
    """Print which goals are met, and at the end whether all are. `goals`: what is asked for, with what there is now."""
    for goal, met in goals.items():
        print(f"{'✓' if met else '✗'} {goal}")
    print("Solved." if all(goals.values()) else "Not solved yet: see ✗.")
