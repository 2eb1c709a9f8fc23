"""Solutions of the lessons' exercises: what to put into an exercise's cell so that the check after it passes."""

SOLUTIONS: dict[str, dict[str, str]] = {
    "00_tour": {
        "exercise-1": "prediction = 12  # three times the bytes, and no sector without a number in it",
        "exercise-2": "stride = 0",
    },
}
