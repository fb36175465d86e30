"""Emitted networks in one program: instances that are computed in turn, each in memory of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.board_networks import feeds_of, plan_of
from tests.emitted import Program
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

_TURNS = """\
#include "small.h"
#include <stdio.h>
#include <string.h>

enum { WIDTH = SMALL_X_PER_ROW / 3, PLANE = SMALL_X_ROWS * WIDTH };

static void taken(void *user, int32_t number, const float *values)
{
    (void)number;
    memcpy(user, values, SMALL_SCORES_SIZE * sizeof(float));
}

/* Two streams, a row of each in turn, and a whole frame after each row; memory at odd multiples of 8. */
int main(int count, char **words)
{
    static struct {
        int64_t shift;
        small_t first, second, third;
    } nets SMALL_ALIGNED;
    static float images[2][SMALL_X_SIZE], scores[4][SMALL_SCORES_SIZE], row[SMALL_X_PER_ROW];
    static small_stream streams[2];
    const small_sink sinks[2] = {{scores[0], taken}, {scores[1], taken}};
    FILE *file = fopen(words[3], "rb");
    if (count != 4 || !fread(images, sizeof images, 1, file))
        return 1;
    small_stream_begin(streams, &nets.first, sinks);
    small_stream_begin(streams + 1, &nets.second, sinks + 1);
    for (int32_t y = 0; y < SMALL_X_ROWS; y++)
        for (int32_t k = 0; k < 2; k++) {
            for (int32_t c = 0; c < 3; c++)
                memcpy(row + c * WIDTH, images[k] + c * PLANE + y * WIDTH, WIDTH * sizeof *row);
            if (small_stream_push_row(streams + k, row) != (y == SMALL_X_ROWS - 1 ? 2 : 1))
                return 4;
            small_run_in(&nets.third, images[1 - k], scores[2]);
            small_run(images[k], scores[3]);
        }
    file = fopen(words[2], "wb");
    return !fwrite(scores, sizeof scores, 1, file) || fclose(file);
}
"""


@pytest.mark.parametrize("target", ["generic", "host"])
def test_instances_in_turn(target: str, tmp_path: Path) -> None:
    """What is computed in one does not reach another, wherever it is."""
    plan = plan_of("residual")
    program = Program(plan, tmp_path / "c", target=target)
    images = [feeds_of(plan, seed) for seed in (0, 1)]
    wanted = [program(image)["scores"].ravel() for image in images]
    (program.folder / "turns.c").write_text(_TURNS)
    program.link("turns")
    (program.folder / "images.bin").write_bytes(b"".join(one["x"].tobytes() for one in images))
    program.execute("turns", "-o", "output.bin", "images.bin")
    found = np.fromfile(program.folder / "output.bin", np.float32).reshape(4, -1)
    for number, image in enumerate((0, 1, 0, 1)):
        np.testing.assert_array_equal(found[number], wanted[image])
