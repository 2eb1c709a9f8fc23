"""Does the check of a kernel's source find rebindings, and only those?"""

from __future__ import annotations

import pytest

import sim
from sim.builder import BuildError
from tests.builder.test_errors import line_of


def refused(body, name):
    with pytest.raises(BuildError, match=rf"'{name}' is made outside this traced block.*k\.var") as caught:
        sim.kernel(body)
    assert line_of(body) in str(caught.value)


def test_a_sum_in_a_loop():
    def body(k, x, n):
        s = 0.0
        for i in k.range_(n):
            s = s + x[i]  # here
        x[0] = s

    refused(body, "s")


def test_adding_in_place_to_a_number():
    def body(k, x, n):
        s = 0.0
        for i in k.range_(n):
            s += x[i]  # here
        x[0] = s

    refused(body, "s")


def test_a_choice_read_afterwards():
    def body(k, x):
        v = x[0]
        with k.if_(v > 1):
            v = 1.0  # here
        x[1] = v

    refused(body, "v")


def test_a_rebinding_in_the_middle_of_nested_blocks():
    def body(k, x, n):
        with k.if_(n > 1):
            v = x[0]
            for i in k.range_(n):
                for _ in range(2):
                    v = v * x[i]  # here
            x[1] = v

    refused(body, "v")


def test_a_rebinding_that_the_other_way_reads():
    def body(k, x):
        v = x[0]
        with k.if_(v > 1):
            v = x[1]  # here
            x[2] = v
        with k.else_():
            x[2] = v

    refused(body, "v")


def test_a_rebound_parameter():
    def body(k, x, n):
        for i in k.range_(4):
            n = n - 1  # here
            x[i] = n

    refused(body, "n")


def allowed(body):
    sim.kernel(body)


def test_variables_change_in_place():
    def body(k, x, n):
        s, t = k.var(0.0), [k.var(0.0) for _ in range(2)]
        for i in k.range_(n):
            s += x[i]
            t[0] += x[i]
            s.set(s * 2)
        x[0] = s

    allowed(body)


def test_names_of_one_block():
    def body(k, x, n):
        for i in k.range_(n):
            v = x[i]
            v = v + 1
            x[i] = v
        with k.if_(n > 3):
            v = x[0]
            x[1] = v
        with k.else_():
            v = x[2]
            x[3] = v

    allowed(body)


def test_unrolled_python_loops():
    def body(k, x, n):
        total = 0.0
        for j in range(4):
            total = total + x[j]
        with k.if_(n > 1):
            inner = 0.0
            d = 1
            while d < 8:
                inner = inner + x[d]
                d *= 2
            x[0] = inner + total

    allowed(body)


def test_a_name_that_is_never_read_again():
    def body(k, x):
        v = x[0]
        x[1] = v
        with k.if_(k.thread_idx.x > 2):
            v = x[2]
            x[3] = v

    allowed(body)


def test_comprehensions_have_names_of_their_own():
    def body(k, x, n):
        i = k.thread_idx.x
        for _ in k.range_(n):
            values = [x[i] for i in range(4)]
            x[i] = values[0]

    allowed(body)


@pytest.mark.parametrize("word", ["break", "continue", "return"])
def test_leaving_a_traced_block(word):
    def with_break(k, x, n):
        for i in k.range_(n):
            x[i] = 0
            break  # here

    def with_continue(k, x, n):
        for i in k.range_(n):
            x[i] = 0
            continue  # here

    def with_return(k, x, n):
        with k.if_(n > 2):
            return  # here

    body = {"break": with_break, "continue": with_continue, "return": with_return}[word]
    with pytest.raises(BuildError, match=f"{word} inside a traced block") as caught:
        sim.kernel(body)
    assert line_of(body) in str(caught.value)


def test_break_in_a_python_loop_inside_a_block():
    def body(k, x, n):
        with k.if_(n > 2):
            for j in range(9):
                if j > 3:
                    break
                x[j] = 0

    allowed(body)


def test_in_place_change_of_an_outer_value_is_found_while_tracing():
    import numpy as np

    def body(k, x, n):
        v = x[0]
        with k.if_(n > 2):
            v += 1  # here
        x[1] = 2.0

    with pytest.raises(BuildError, match=r"v = k\.var\(0\.0\)") as caught:
        sim.kernel(body).build_for((np.zeros(4, np.float32), 3))
    assert line_of(body) in str(caught.value)
