"""The planted faults: small wrong changes of the product, as people make them.

`# file`, for C with the kernels or tests that reach it as a regular expression; `kind: what is wrong`; what stands in the
file after `- `, once, and what the fault puts there after `+ `.
"""

FAULTS = r"""
# csdfgen/planning/waits.py
lost: a write waits for no read of another processor
-             if writes:
+             if not writes:
bound: the last line of cache of a row is not followed
- yield low // LINE, -(-high // LINE)
+ yield low // LINE, high // LINE
check: the audit of waits forgets reads
- used = np.maximum(used, read[:, low:high].max(axis=1)) if writes else used
+ used = np.maximum(used, read[:, low:high].max(axis=1)) if at < 0 else used
# csdfgen/planning/mapped.py
lost: a turn of a step waits for one turn less of others
- (part, turn): tuple((k, count - (steps - 1) * plan.per_step[k]) for k, count in waits[at])
+ (part, turn): tuple((k, count - 1 - (steps - 1) * plan.per_step[k]) for k, count in waits[at])
late: a copy counts as part of the firing behind it
- yield Moved(at, source.name, work.phases[phase].out, False)
+ yield Moved(at + 1, source.name, work.phases[phase].out, False)
size: what crosses has no slot for the next frame
- slots = max(parts[k].lag for k in targets) - part.lag + 1 + (not pipelined)
+ slots = max(1, max(parts[k].lag for k in targets) - part.lag + (not pipelined))
early: layers of an If are computed as soon as what they read is there
- found[layer.name] = level, own
+ found[layer.name] = max(0, level - 1), own
check: a slot that ends behind the pool is accepted
- if high > len(cells):
+ if low > len(cells):
check: rows of another frame in a slot are accepted
- elif not np.all(cells[low:high] == value):
+ elif not np.all(cells[low:high, 0] == value[0]):
check: rows that are read before all of them are written are accepted
- elif made.get((one.tensor, frame), 0) < one.rows.stop:
+ elif made.get((one.tensor, frame), 0) < one.rows.start:
# csdfgen/planning/mapped_graph.py
size: the graph has the free rows of one slot alone
- free = len(one.offsets) * sum(given)
+ free = sum(given)
# runtime/mapped.py
share: all frames open the first slot
- return slots[frame % len(slots)]
+ return slots[0]
stale: an array that replaces another one is not opened
- if self._opened.get((name, output)) is not array:
+ if (name, output) not in self._opened:
# csdfgen/planning/sharing.py
share: an output of the network is overwritten in place
- return len(pairs) == 1 and pairs[0][0] is layer and name not in network.output_tensors
+ return len(pairs) == 1 and pairs[0][0] is layer
share: an operand that is merged elsewhere is overwritten although others read it
- if merged and joins is not None and not _reads_alone(forest, part, joins):
+ if merged and joins is None and not _reads_alone(forest, part, joins):
size: the place of a part is its position, not that times the stride
- outer.buffer, outer.offset + link.start * outer.strides[link.dim], outer.strides
+ outer.buffer, outer.offset + link.start, outer.strides
check: operands of a Concat that lie in another order count as a part of a larger one
- if len(links) > 1 and len(parents) == 1 and len(offsets) == 1 and min(offsets) >= 0:
+ if len(links) > 1 and len(parents) == 1 and min(offsets) >= 0:
# csdfgen/planning/workspaces.py
stale: scratch that is known for other strides is taken
- key = self._kernels, work.kin, limit, self._stored(work)
+ key = self._kernels, work.kin, limit
stale: scratch of a firing that reads other runs of rows is taken
- key = kind, step.phase.images, relations(step)
+ key = kind, step.phase.images
# csdfgen/planning/placement.py
size: the arena ends where the highest scratch begins
- total = max(total, int((offsets + sizes)[sizes > 0].max()))
+ total = max(total, int(offsets[sizes > 0].max()))
early: a block is free when the first of its rows is
- gones.append(np.maximum.reduceat(one.gone, start))
+ gones.append(np.minimum.reduceat(one.gone, start))
size: a kept buffer behind another is not aligned
- at += -(-buffer.rows * buffer.row_bytes // buffer.alignment) * buffer.alignment
+ at += buffer.rows * buffer.row_bytes
size: free scratch begins at any byte
- starts = -(-np.append(0, high) // step) * step
+ starts = np.append(0, high)
# csdfgen/planning/capacities.py
lost: rows that a reader keeps are not counted
- return self.capacity + max(kept, default=0)
+ return self.capacity
check: a phase that fires again is accepted
- if phase != following[actor]:
+ if phase > following[actor]:
check: tokens that do not divide the rates are accepted
- if not size or least % size:
+ if not size:
# csdfgen/planning/packing/first_fit.py
share: in large packings rows may share bytes for the first firing of the later one
- here = np.flatnonzero((self._born[:count] < gone) & (self._gone[:count] > born))
+ here = np.flatnonzero((self._born[:count] < gone) & (self._gone[:count] > born + 1))
share: in small packings rows may share bytes for one firing
- if first < end and start < last:
+ if first < end and start < last - 1:
size: what lies behind a row is not aligned
- insort(here, (at, -(-(at + size) // step) * step, start, end))
+ insort(here, (at, at + size, start, end))
# csdfgen/planning/packing/repair.py
size: repaired packings are not aligned
- end = -(-(start + sizes[other]) // step) * step
+ end = start + sizes[other]
# csdfgen/planning/packing/items.py
check: an item that dies before it is born is accepted
- self.born >= self.gone,
+ self.born > self.gone,
bound: the proved lower bound is one instant short
- return np.cumsum(changes)
+ return np.cumsum(changes) + 1
# csdfgen/planning/recompute.py
sign: the budget of recomputation counts what is computed anyway
- if found and (one.macs - own > self.spare or firings > FIRINGS):
+ if found and (one.macs > self.spare or firings > FIRINGS):
# csdfgen/planning/lifetimes.py
early: a row is free when its first reader is done
- gone = _firing(buffer.readers, rows, times, np.maximum) + 1
+ gone = _firing(buffer.readers, rows, times, np.minimum) + 1
bound: a row is claimed a phase early
- times[access.actor][np.searchsorted(np.array(access.rows), rows, side="right")]
+ times[access.actor][np.searchsorted(np.array(access.rows), rows, side="left")]
early: whole layers free outputs of the network
- if last.get(tensor.name, at) == at and tensor.name not in network.output_tensors:
+ if last.get(tensor.name, at) == at:
# csdfgen/planning/buffers.py
lost: outputs that are kept are released
- kept=kept and not network.output_tensors.isdisjoint(sharing.members[name]),
+ kept=kept and network.output_tensors.issuperset(sharing.members[name]),
# csdfgen/planning/memories.py
bound: an item that begins below the end of the fast memory counts as in it
- there &= offsets + items.sizes <= fast
+ there &= offsets <= fast
share: an item fits a gap that is taken in its first firing
- others = np.flatnonzero(there & (items.born < items.gone[i]) & (items.gone > items.born[i]))
+ others = np.flatnonzero(there & (items.born < items.gone[i]) & (items.gone > items.born[i] + 1))
count: traffic of a batch is said to be that of an image
- totals[:, 1:] //= plan.conversion.frames
+ totals[:, 1:] //= 1
# csdfgen/planning/checker.py
check: blocks that are not aligned pass the audit
- wrong = next((at for at in starts if at < 0 or at % buffer.alignment), None)
+ wrong = next((at for at in starts if at < 0), None)
# csdfgen/phases/conversion.py
early: an accumulating layer claims its rows when it ends
- return Write(tensor, complete, complete if at_the_end else (tensor.rows,) * count)
+ return Write(tensor, complete, complete)
bound: the last phase of an accumulating layer costs nothing
- times = differences(total * (i + 1) // count for i in range(count))
+ times = differences(total * i // count for i in range(count))
count: a phase of several images takes as long as one of one
- times=tuple(time * images for time in work.times),
+ times=work.times,
check: a Slice with steps is fed from the input row by row
- and all(step == 1 for step in layer.attributes["steps"])
+ and len(layer.attributes["steps"]) > 0
lost: what is applied to a fed Slice is dropped
- and not layer.epilogue
-         and all(step
+ and all(step
lost: images of a batch take the branch of the first one
- together = batches != 1 and not layer.guards
+ together = batches != 1
bound: actors consume what they release
- consumption = tuple(unit * n for n in differences(read.need))
+ consumption = tuple(unit * n for n in differences(read.release))
# csdfgen/phases/heights.py
bound: slabs are halved below the least height
- low[name] = max(least, -(-rows // 2))
+ low[name] = -(-rows // 2)
lost: layers that accumulate are cut in a paper's phases
- if mode is Mode.ACCUMULATE and spec.layers.get(layer.name, spec.general) == "paper":
+ if mode is Mode.ACCUMULATE and spec.layers.get(layer.name, spec.general) == "whole":
# csdfgen/lowering/program.py
stale: every image of a batch takes the branch of the first
- guards.append(tuple(condition(one.branch, image, one.taken) for one in inside))
+ guards.append(tuple(condition(one.branch, 0, one.taken) for one in inside))
bound: a delivery runs into the next image
- rows = Rows(start, min(write.tensor.rows, start + stop - at))
+ rows = Rows(start, start + stop - at)
stale: steps whose rows lie apart in another way share instructions
- alike.append(tuple([row - start for row in rows]))
+ alike.append(tuple([row - low for row in rows]))
stale: steps with other scratch share instructions
- return Blocks((step.actor, kind, step.phase.images, pad.size, tuple(alike)), tuple(numbers))
+ return Blocks((step.actor, kind, step.phase.images, tuple(alike)), tuple(numbers))
axis: a fed Slice begins with the first column
- part = tuple(slice(starts[a], starts[a] + tensor.shape[a]) for a in source.order[1:])
+ part = tuple(slice(0, tensor.shape[a]) for a in source.order[1:])
# csdfgen/lowering/weight_file.py
stale: weights of other strides at the same place of a file are taken
- return f"{form}{array.strides}{at}:{file.identity}"
+ return f"{form}{at}:{file.identity}"
check: a changed file of weights is trusted
- if found["written"] != self.path.stat().st_mtime:
+ if found["written"] is None:
stale: weights that other code packed are taken
- parts = [self._build, _code_of(pack), *map(self._named, given)]
+ parts = [self._build, *map(self._named, given)]
# csdfgen/program/steps.py
bound: runs of rows that lie apart are joined
- while 0 < step <= most and stop < len(rows) and rows[stop] - rows[stop - 1] == step:
+ while 0 < step <= most and stop < len(rows) and rows[stop] - rows[stop - 1] >= step:
stale: steps of several images whose rows lie otherwise are alike
- matters = one.pool in written or step.phase.images > 1
+ matters = one.pool in written and step.phase.images > 1
# csdfgen/model/rows.py
bound: a window reads as many rows as without padding
- stop = (out.stop - 1) * self.stride - self.pad_top + self.extent
+ stop = (out.stop - 1) * self.stride + self.extent
early: rows that a later phase reads again are released
- out[i] = min(low, need[i])
+ out[i] = need[i]
# runtime/bound.py
bound: the last byte that was touched is not counted
- return start + block.size - int(changed[::-1].argmax())
+ return start + block.size - int(changed[::-1].argmax()) - 1
option: branches that are forced are forgotten by another arena
- found._looks.forced = self._looks.forced
+ found._looks.forced = {}
lost: one condition of nested Ifs suffices
- if all(self._is(one) is one.taken for one in conditions):
+ if any(self._is(one) is one.taken for one in conditions):
# runtime/session.py
stale: a frame reads the inputs of the last call of run_into
- if kept is None or kept[0] is not x or kept[1] is not out:
+ if kept is None or kept[1] is not out:
share: outputs that are held are overwritten
- elif other is None and in_turn:
-             self._bound, self._other = bound.elsewhere(), bound
+ elif other is None and in_turn:
+             self._bound, self._other = bound, bound
check: an output array that is read only is written
- usable = flags.writeable and flags.aligned
+ usable = flags.aligned
option: rows of a later run are handed on as those of the first images
- on_rows(name, first + image, start, stop, rows)
+ on_rows(name, image, start, stop, rows)
check: a frame may start in itself
- if self.owner == me:
+ if self.owner is me is None:
# runtime/verify.py
count: rows that were never handed on pass the check
- sum(part.wrong for part in parts) + abs(size - values),
+ sum(part.wrong for part in parts),
bound: the first wrong row is counted in its slab
- row = None if one.first_wrong_row is None else start + one.first_wrong_row
+ row = one.first_wrong_row
# runtime/reference.py
sign: noise widens the tolerance of nothing
- return _SUBNORMAL + self.of_largest * largest + self.relative * size + NOISE * noise
+ return _SUBNORMAL + self.of_largest * largest + self.relative * size
type: float16 is held against float32's tolerance
- "float16": Tolerance(1e-2, 1e-2),
+ "float16": FLOAT32,
# csdfgen/backends/native/families/common.py
bound: the last row that a phase holds is padding
- there[base + r] if held.start <= r < held.stop else PADDING for base in bases for r in rows
+ there[base + r] if held.start <= r < held.stop - 1 else PADDING for base in bases for r in rows
stale: rows of the second image are those of the first
- bases = [image * len(held) - held.start for image in range(images)]
-     return [
+ bases = [-held.start for image in range(images)]
+     return [
lost: what follows a LeakyRelu is a plain one
- return LEAKY, float(given["alpha"]), 0.0
+ return LEAKY, 0.01, 0.0
check: rows with gaps count as dense
- size == 1 or own == step
+ size == 1 or own >= step
# csdfgen/backends/native/families/maps.py
bound: the constants of a stretch begin with the first channel
- return values[low:high]
+ return values[: high - low]
lost: the activation follows the first of several sums
- Activation(*(after if number == len(rest) else (NONE, 0.0, 0.0))),
+ Activation(*(after if number == 0 else (NONE, 0.0, 0.0))),
sign: the mean of a normalization is added
- packing.aligned((bias - mean * factor).reshape(-1)),
+ packing.aligned((bias + mean * factor).reshape(-1)),
# csdfgen/backends/native/families/pools.py
lost: an average counts padding although it should not
- lambda window, out, size: count_taps(window, out, size, padded)
+ lambda window, out, size: count_taps(window, out, size, True)
lost: a pool of some columns has the padding of all
- across = replace(windows.across, pad_top=left)
+ across = windows.across
# csdfgen/backends/native/families/recurrent.py
stale: every block of steps starts from the first state
- before = [h, c]
+ before = before
size: the gates of a block take the place of the states
- block = (self.workspace(step, pad.size) - self._of_states()) // self._of_gates(1)
+ block = self.workspace(step, pad.size) // self._of_gates(1)
# csdfgen/backends/native/families/convolution.py
lost: a convolution that threads share loses its bias
- bias = packing.conv_bias(self.bias, outs, groups)
+ bias = packing.conv_bias(None, outs, groups)
option: the variant that was asked for is not taken
- if wished is not None and wished.kernel == CONV:
+ if wished is not None and wished.kernel == CONV and not exact:
# csdfgen/backends/native/threads.py
bound: a thread leaves the last columns out
- cuts = [count * k // parts for k in range(parts + 1)]
+ cuts = [count * k // (parts + 1) for k in range(parts + 1)]
size: a thread's scratch begins in that of the one before
- workspace=_behind(step.workspace, number * room),
-             workspace_bytes=room,
+ workspace=_behind(step.workspace, number * room // 2),
+             workspace_bytes=room,
lost: causal attention in parts counts queries of the first part
- causal = step.causal if step.causal < 0 else step.causal + start
+ causal = step.causal
# csdfgen/backends/native/packing.py
size: panels of bytes are filled up to whole panels one short
- terms = np.zeros((groups, each + -each % PANEL, fours * FOUR), np.int8)
+ terms = np.zeros((groups, each, fours * FOUR), np.int8)
# csdfgen/backends/native/bound.py
stale: an array of another type is copied as the last one
- known = array.dtype, array.strides
+ known = array.itemsize, array.strides
check: arrays of the other byte order are read as they are
- if not array.dtype.isnative:
+ if array.dtype.isnative is None:
# csdfgen/backends/native/strided.py
share: copies that overlap are joined to one
- found.append(_one_copy(some) if len(some) > 1 and _apart(some) else some[0])
+ found.append(_one_copy(some) if len(some) > 1 else some[0])
stale: a constant 0 of either sign is the one that came first
- return np.array(value, dtype) if value == 0 else _number(value, dtype.name)
+ return _number(value, dtype.name)
# csdfgen/backends/native/c/winograd.c winograd_of
sign: a wrong sign in the transform of two rows
- STORE(1, m1 - m2 - m3) \
+ STORE(1, m1 - m2 + m3) \
bound: a tile at the lower edge writes a row too many
- const int32_t high = least(f->tile, f->each - in), top
+ const int32_t high = f->tile, top
stale: sums of later channels begin with the bias again
- const int32_t begins = f->first == f->reach.low;
+ const int32_t begins = 1;
# csdfgen/backends/native/c/depthwise.h depthwise_of
bound: the last pixel of an even strip may lie outside
- s.even = s.even && in >= 0 && in + (s.columns - 1) * spread < step->width;
+ s.even = s.even && in >= 0 && in + (s.columns - 2) * spread < step->width;
lost: a residual is not added
- } else if (residual) {
+ } else if (residual && !residual->stride) {
stale: taps behind the first table start from the bias
- if (!begins) {
-         s.bias = csdf_zeros;
+ if (!begins) {
lost: the activation is applied to parts of sums
- if (!ends)
-         s.activation.kind = CSDF_NONE;
+ if (ends < 0)
+         s.activation.kind = CSDF_NONE;
# csdfgen/backends/native/c/recurrent_bytes.c recurrent_bytes_of
zero: hidden values become bytes around zero
- *zero = (uint8_t)*point;
+ *zero = (uint8_t)(*point / 2);
# csdfgen/backends/native/c/recurrent.c recurrent_of
axis: peepholes of the forget gate are those of the output gate
- f = f + csdf_load(step->peepholes + 2 * wide + at) * c;
+ f = f + csdf_load(step->peepholes + wide + at) * c;
stale: hidden values of the first step stay
-         now = next;
-         next = before;
+         next = before;
lost: clipping has no lower end
- return activated(csdf_min(csdf_splat(clip), csdf_max(csdf_splat(-clip), x)), by);
+ return activated(csdf_min(csdf_splat(clip), x), by);
# csdfgen/backends/native/c/conv_bytes.c conv_bytes_of
bound: padding at the right is read from the next row
- const int32_t high = most(low, least(some, step->width - from));
+ const int32_t high = most(low, least(some, step->width + 1 - from));
lost: zero points of weights are not taken away
- if (CENTRES && o->zeros)
-                     centre(o->zeros + panel, t.bytes + at, &p, pixels, to);
+ if (o->zeros && pixels < 0)
+                     centre(o->zeros + panel, t.bytes + at, &p, pixels, to);
axis: the second group reads channels of the first
- for (int32_t k = 0; k < layer->groups; k++, g.first += ins) {
+ for (int32_t k = 0; k < layer->groups; k++) {
# csdfgen/backends/native/c/index.c pick_|put_at_|_at_|largest_|smallest_|nonzero|suppressed
order: of equal elements the last one is the best
- return (x == y || (x != x && y != y)) && i < k; \
+ return (x == y || (x != x && y != y)) && i > k; \
bound: a single run is copied an element short
- memcpy(l->out, l->a, (size_t)l->n * bytes); \
-             return; \
+ memcpy(l->out, l->a, (size_t)(l->n - 1) * bytes); \
+             return; \
# csdfgen/backends/native/c/copy.c copy_|put_|take_|look_|from_
bound: of four runs that are woven the last is the third again
- out[3] = a[3 * apart + c]; \
+ out[3] = a[2 * apart + c]; \
type: floats become bytes by rounding
- made[i + k] = (type)(int32_t)x[i + k]; \
+ made[i + k] = (type)(int32_t)(x[i + k] + 0.5f); \
# csdfgen/backends/native/c/program.c test_compiled|test_kept_programs|test_prebuilt|test_cli
check: a place behind the image is accepted
- if (place->at % 8 || head->image.count < 8 || place->at > head->image.count - 8 || place->pool > CSDF_OF_KERNELS)
+ if (place->at % 8 || head->image.count < 8 || place->pool > CSDF_OF_KERNELS)
check: a damaged program is not noticed
- if (csdf_checksum(program->file + behind, program->size - behind) != head->checksum)
+ if (csdf_checksum(program->file + behind, 0) != head->checksum && !head->checksum)
stale: every turn writes the first images
- port->base = array ? array + ports[k].offset + turn * ports[k].step : NULL;
+ port->base = array ? array + ports[k].offset : NULL;
lost: a branch is computed if one of its conditions holds
- taken &= (program->arena[guards[g].at] != 0) == (guards[g].taken != 0);
+ taken = (program->arena[guards[g].at] != 0) == (guards[g].taken != 0);
# csdfgen/backends/native/c/pool.h pool_of
bound: the last column of a window is left out
- for (int32_t k = 0, in = left; at && k < step->kernel_w; k++, in += step->dilation_w)
+ for (int32_t k = 0, in = left; at && k < step->kernel_w - (step->kernel_w > 2); k++, in += step->dilation_w)
# csdfgen/backends/native/c/bytes.h _bytes|rescale|integers
type: sums that are shifted are cut off, not rounded
- const int64_t value = ((int64_t)sum * by[0] + ((int64_t)1 << (by[1] - 1))) >> by[1];
+ const int64_t value = ((int64_t)sum * by[0]) >> by[1];
# csdfgen/backends/native/c/products.h conv_of|gemm_of|map_of|depthwise_of
sign: a Clip has only its upper end
- return csdf_min(csdf_splat(by->b), csdf_max(csdf_splat(by->a), x));
+ return csdf_min(csdf_splat(by->b), x);
# csdfgen/backends/native/c/conv.c conv_of
axis: padding at the left is that of the row above
- const int32_t stop = least(end, (group + 1) * outs);
+ const int32_t stop = end;
# csdfgen/backends/native/c/softmax.c softmax_of
bound: the last part of a line is not counted
- lines.last = each - (lines.count - 1) * CSDF_LANES;
+ lines.last = CSDF_LANES;
# csdfgen/backends/native/c/attention.c attention_of
lost: the scores are not capped
- if (step->cap != 0.0f)
+ if (step->cap < 0.0f)
# csdfgen/backends/native/c/standardize.h standardize_of
bound: the tail of a plane does not count
- for (; p < pixels; p++, at += apart) {
+ for (; p < pixels - 1; p++, at += apart) {
# csdfgen/backends/native/c/pool_bytes.c pool_bytes_of|average_bytes|sum_bytes
type: the greatest byte is compared with its sign
- most[c] = x > most[c] ? x : most[c];
+ most[c] = (int8_t)x > (int8_t)most[c] ? x : most[c];
# csdfgen/backends/native/c/strided.h bf16
type: bfloat16 rounds every NaN to infinity
- upper.bits = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
+ upper.bits = (uint16_t)nearest;
# csdfgen/backends/device/bound.py
stale: an array that is opened later is not copied to the device
- if there is None or there.array is not array:
+ if there is None:
size: the tables of constants overlap
- self.size += -(-max(1, table.nbytes) // 16) * 16
+ self.size += max(1, table.nbytes) // 16 * 16
# csdfgen/backends/numpy/backend.py
share: a pool reaches as far as the last rows of a step in it
- found[one.pool] = max(found.get(one.pool, 0), end)
+ found[one.pool] = end
# csdfgen/ops/pooling.py
bound: an average counts a tap beyond the end
- last = min(window.kernel - 1, (high - 1 - start) // window.dilation)
+ last = min(window.kernel - 1, (high - start) // window.dilation)
check: a padding as wide as the window is accepted
- if any(pad >= k for pad, k in zip(pads, (*kernel, *kernel), strict=True)):
+ if any(pad > k for pad, k in zip(pads, (*kernel, *kernel), strict=True)):
sign: a norm of order p takes the p-th power at the end
- exponent = constant(1 / p, accumulator_type(layer.output.dtype))
+ exponent = constant(p, accumulator_type(layer.output.dtype))
lost: a pool that accumulates divides after every phase
- return [*calls, *finish(work.phase.out, target)] if work.phase.last else calls
+ return [*calls, *finish(work.phase.out, target)]
# csdfgen/ops/convolution.py
bound: padding below a convolution makes no rows
- (size + w.pad_top + w.pad_bottom - w.extent) // w.stride + 1
+ (size + w.pad_top - w.extent) // w.stride + 1
lost: a transposed convolution without taps leaves the bias out
- (work.result.fill, (0,)) if bias is None else (np.copyto, (work.result, bias))
+ (work.result.fill, (0,))
sign: SAME_LOWER pads as SAME_UPPER does
- begins = tuple(total // 2 if mode == "SAME_UPPER" else -(-total // 2) for total in surplus)
+ begins = tuple(total // 2 for total in surplus)
check: groups that do not divide the outputs are accepted
- if weights.shape[0] % group:
+ if weights.shape[0] < group:
bound: a transposed convolution reads a row less above
- start = -(-(out.start + w.pad_top - w.extent + 1) // w.stride)
+ start = -(-(out.start + w.pad_top - w.extent + 2) // w.stride)
# csdfgen/ops/linear.py
option: transB is not looked at
- b = b[::-1] if attributes.get("transB") else b
+ b = b[::-1] if attributes.get("transA") else b
axis: the cost of a product counts rows instead of what is summed
- return len(out) * layer.output.row_elements * contracted
+ return len(out) * layer.output.row_elements
# csdfgen/ops/normalization.py
bound: the window of an LRN of even size begins a channel early
- before, after = (min(side // 2, channels - 1) for side in (size - 1, size))
+ before, after = (min(side // 2, channels - 1) for side in (size, size - 1))
lost: a normalization is shifted by nothing
- if bias is not None:
-         yield np.add, (x, bias, y)
+ if bias is None:
+         yield np.add, (x, bias, y)
check: LpNormalization of any order
- if p not in (1, 2):
+ if p < 1:
axis: the default axis of an old Softmax is the last
- first = normalize_axis(int(node.attributes.get("axis", -1 if one else 1)), rank)
+ first = normalize_axis(int(node.attributes.get("axis", -1)), rank)
# csdfgen/ops/resampling.py
axis: the region of an axis ends where that of the next one does
- method["roi"] = (roi[axis], roi[axis + len(source.shape)])
+ method["roi"] = (roi[axis], roi[len(source.shape)])
sign: not_larger takes the larger factor
- {"stretch": None, "not_larger": min, "not_smaller": max}
+ {"stretch": None, "not_larger": max, "not_smaller": max}
bound: a position halfway rounds the other way
- "round_prefer_ceil": lambda s, x: np.floor(x) + (x - np.floor(x) >= 0.5 - TIE),
+ "round_prefer_ceil": lambda s, x: np.floor(x) + (x - np.floor(x) > 0.5 + TIE),
# csdfgen/ops/indexing.py
axis: gathered elements step along the axis as along the last
- found = _elements(indices, data.shape[axis], steps[axis], positions, work.scratch, calls)
+ found = _elements(indices, data.shape[axis], steps[-1], positions, work.scratch, calls)
lost: rows of data that are gathered begin with the first
- starts[out.row_axis] = work.phase.out.start
+ starts[out.row_axis] = 0
axis: batches of GatherND are the first one again
- first = out.start if layer.output.row_axis == k else 0
+ first = 0
# csdfgen/ops/recurrent.py
axis: both directions are joined along the steps
- axis = {"axis": layout + 1 if k == 0 else layout}
+ axis = {"axis": layout}
option: input_forget is not handed on
- "input_forget": bool(given.get("input_forget", 0)),
+ "input_forget": False,
check: lengths of some sequences are ignored
- if isinstance(lengths, np.ndarray) and np.all(lengths >= steps):
+ if isinstance(lengths, np.ndarray) and np.any(lengths >= steps):
# csdfgen/ops/quantized_products.py
sign: the zero point of the input is added to the sums
- return weights, [(low, high)], bias - zero * weights.sum(1, dtype=np.int64)
+ return weights, [(low, high)], bias + zero * weights.sum(1, dtype=np.int64)
check: zero points for another number of columns are taken
- zeros.size not in (1, count)
+ zeros.size not in (1, count, 3)
# csdfgen/ops/quantized_pools.py
stale: the sums of a byte pool are those of the last phase
- if not work.phase.first:
-             calls.append((np.add, (state, part, state)))
+ if work.phase.last:
+             calls.append((np.add, (state, part, state)))
# csdfgen/ops/joining.py
bound: a part of a Concat that ends in a slab is cut
- Rows(min(max(out.start - start, 0), size), min(max(out.stop - start, 0), size))
+ Rows(min(max(out.start - start, 0), size), min(max(out.stop - start - 1, 0), size))
# csdfgen/ops/reshaping.py
check: a Reshape that cuts rows otherwise is a view
- return not _loses_rows(layer) and layer.output.rows == layer.computed(0).rows
+ return not _loses_rows(layer)
# csdfgen/ops/windows.py
bound: SAME padding is put above
- stop = min(out.stop, (length - 1 - offset) // window.stride + 1)
+ stop = min(out.stop, (length - 1 - offset) // window.stride)
# csdfgen/ops/activation.py
sign: a Relu clips at 1
- return _CLIP, (x, _limits(out.dtype)[0], out.dtype.type(0), out)
+ return _CLIP, (x, _limits(out.dtype)[0], out.dtype.type(1), out)
# csdfgen/ops/reduction.py
lost: parts of a reduction are not combined
- calls.append((reduction.combine, (target, part, target)))
+ calls.append((np.copyto, (target, part)))
# csdfgen/ops/selection.py
check: an overlap above 1 is accepted
- if not 0 <= overlap <= 1:
+ if not 0 <= overlap:
# csdfgen/ops/einsum.py
axis: a letter that occurs twice is the sum of all
- alone = make("Where", along[0] == along[1], part.value, zero)
+ alone = make("Where", along[0] <= along[1], part.value, zero)
# csdfgen/ops/block_quantized.py
order: the halves of a byte are exchanged
- return padded[:, ::2] | padded[:, 1::2] << 4
+ return padded[:, 1::2] | padded[:, ::2] << 4
# csdfgen/ops/copies.py
bound: a run that is repeated ends an element early
- int(starts[a]), int(own[a]), int(apart[a]) if b - a > 1 else 1, b - a, int(repeats[a])
+ int(starts[a]), int(own[a]), int(apart[a]) if b - a > 2 else 1, b - a, int(repeats[a])
# csdfgen/ops/rearranged.py
order: a sequence is reversed with its padding
- return [make("Gather", source, np.flatnonzero(condition), axis=axis)]
+ return [make("Gather", source, np.flatnonzero(condition)[::-1].copy(), axis=axis)]
# csdfgen/ops/trees.py
sign: missing values go the other way
- np.append(missing, nothing).astype(bool),
+ ~np.append(missing, nothing).astype(bool),
# csdfgen/ops/arithmetic.py
sign: BitShift shifts to the right
- function = np.left_shift if task.attribute("direction") == "LEFT" else np.right_shift
+ function = np.left_shift if task.attribute("direction") == "RIGHT" else np.right_shift
# csdfgen/ops/base.py
check: scratch that is too small is handed out
- if self._at > self._buffer.nbytes:
+ if start > self._buffer.nbytes:
# csdfgen/ops/attention.py
size: scores are divided by the channels, not by their root
- "scale": float(given) if given else 1 / sqrt(channels),
+ "scale": float(given) if given else 1 / channels,
axis: the mask of a head is that of another group
- divided = (1, 1) if sizes[1] == 1 else (few, share)
+ divided = (1, 1) if sizes[1] == 1 else (share, few)
# csdfgen/reading/folding.py
sign: integers are divided towards minus infinity
- return np.asarray(towards_minus + inexact.astype(a.dtype))
+ return np.asarray(towards_minus)
check: a fold of any size is evaluated
- if elements > limit:
+ if elements > limit**2:
lost: values that were found keep room for others
- known[node.outputs[0]] = np.compress(found.take(0, 1 - axis) != FILL, found, axis)
+ known[node.outputs[0]] = found
# csdfgen/reading/batching.py
check: constants that differ from image to image run one after another
- if a.dtype != b.dtype or a.shape != b.shape:
-         return False
+ if a.dtype != b.dtype or a.shape != b.shape:
+         return a.shape[1:] == b.shape[1:]
axis: a setting of axis 0 is not seen
- "axis": lambda axis, rank: axis == 0,
+ "axis": lambda axis, rank: axis == -rank,
check: layers that look along images are known for each
- "GatherElements": lambda layer: 0 not in layer.constants,
+ "GatherElements": lambda layer: True,
# csdfgen/reading/heights.py
axis: a size that rows are split into is scaled behind the first
- at = next((k for k in range(len(before)) if prod(before[k + 1 :]) < stride), None)
+ at = next((k for k in range(len(before)) if prod(before[k + 1 :]) <= stride), None)
count: the end of a Slice is counted from the front
- ends[k] = starts[k] + known
+ ends[k] = known
check: a size that follows no height is rounded
- if rest or was == 1:
+ if was == 1:
# csdfgen/reading/onnx_graph.py
stale: bodies of equal place are one, whatever they are given and make
- key = (operation.place, part, tuple(given.values()), results)
+ key = (operation.place, part)
stale: weights of a branch are known by the name of the node
- weights = self._add_initializers(graph, own, lambda n: self.names.fresh(prefix + n))
+ weights = self._add_initializers(graph, own, lambda n: prefix + n)
check: a tensor that is made twice is accepted
- if name in seen or name in others:
+ if name in others:
lost: attributes of a function are those of its declaration
- arguments.update(call.attributes)
+ arguments = {**call.attributes, **arguments}
# csdfgen/reading/network_builder.py
check: a tensor of any size is accepted
- if elements > MAX_ELEMENTS:
+ if rows > MAX_ELEMENTS:
# csdfgen/reading/input_shapes.py
option: the batch is not handed on to inputs with a known size
- if dims and batch is not None and (len(dims) > 1 or dims[0] is None):
+ if dims and batch is not None and dims[0] is None:
# csdfgen/rewriting/fuse.py
lost: the old bias of a convolution is dropped
- 2: (bias.astype(np.float64) * scale + shift).astype(weights.dtype),
+ 2: shift.astype(weights.dtype),
sign: what is subtracted is added
- return one, -value
+ return one, value
check: a Pad with other values is folded into a convolution
- zero = producer.attributes["mode"] == "constant" and not np.any(producer.attributes["value"])
+ zero = producer.attributes["mode"] == "constant"
check: layers of two branches are merged
- if producer.guards == layer.guards and len(producer.epilogue) < MOST_APPLIED:
+ if len(producer.epilogue) < MOST_APPLIED:
lost: the epilogue of a merged layer comes in the wrong order
- applied = (*producer.epilogue, replace(layer, epilogue=()), *layer.epilogue)
+ applied = (replace(layer, epilogue=()), *producer.epilogue, *layer.epilogue)
# csdfgen/rewriting/conditions.py
check: a constant that is lost is no fault
- if held - part.constants.keys():
+ if held < part.constants.keys():
check: an output of another type passes
- == (new.tensor.shape, new.tensor.dtype, new.tensor.row_axis)
+ == (new.tensor.shape, old.tensor.dtype, new.tensor.row_axis)
# csdfgen/goals/choice.py
option: the constants are counted with weights in flash
- return replace(options, count="flash") if apart else options
+ return replace(options, count="total") if apart else options
bound: a plan that takes exactly the memory is refused
- if options.memory and made.total_bytes > options.memory:
+ if options.memory and made.total_bytes >= options.memory:
# csdfgen/goals/search.py
bound: a front keeps plans that are no faster
- if not front or one.seconds < front[-1].seconds * _EQUAL:
+ if not front or one.seconds <= front[-1].seconds / _EQUAL:
# csdfgen/goals/overlap.py
bound: the slots of a ring are one too few
- found[write.tensor.name] = int((claimed - np.min(gone, axis=0)).max())
+ found[write.tensor.name] = int((claimed - np.min(gone, axis=0)).max()) - 1
# csdfgen/goals/batching/search.py
size: half of the images are priced
- costs.append(costs[known - 1] + costs[count - known - 1])
+ costs.append(costs[known - 1])
# csdfgen/devices/model.py
sign: the likelihood of else is that of then
- share = 1 - share
+ share = 0 + share
count: a silent layer takes time
- if weight == 1:
-         return one
-     return replace(one, seconds=weight * one.seconds, launch=weight * one.launch)
+ return one
lost: a launch costs nothing
- launches = _value(launch) * len(rows)
+ launches = _value(launch)
# csdfgen/devices/work.py
count: a multiply-accumulate is one operation
- operations=own * (2 if multiplies else 1) + in_slab * elements * part,
+ operations=own + in_slab * elements * part,
# csdfgen/precision/ranges.py
bound: values at the upper end are lost
- np.minimum(at, BINS - 1, out=at)
+ np.minimum(at, BINS - 2, out=at)
lost: a range that does not hold zero is kept as it is
- low, high = min(found[0], 0.0), max(found[1], 0.0)
+ low, high = found
# csdfgen/precision/thresholds.py
count: clipped values weigh nothing
- clipped[-1] += counts[inside[-1] + 1 :].sum()
+ clipped[-1] += 0
# csdfgen/precision/rounding.py
axis: windows are read with rows and columns exchanged
- first = index * strides[axis] - pads[axis]
+ first = index * strides[axis] - pads[axis + 2]
sign: the correction of a bias is taken the other way
- error = (weights - rounded).reshape(groups, -1, terms)
+ error = (rounded - weights).reshape(groups, -1, terms)
# csdfgen/precision/levelling.py
sign: weights behind a levelled tensor are not divided
- back = _beside(work, one.maker, 1 / best)
+ back = _beside(work, one.maker, best)
# csdfgen/precision/calibrate.py
count: samples of a batch overlap
- sample[tensor.name] = array[k * shape[0] : (k + 1) * shape[0]] if shape else array
+ sample[tensor.name] = array[k : k + shape[0]] if shape else array
# csdfgen/emission/emit.py
check: a folder that is not empty is written into
- if not force and folder.is_dir() and any(folder.iterdir()):
+ if force and folder.is_dir() and any(folder.iterdir()):
check: what a board has no memory for is written
- if not need.fits:
+ if need.fits is None:
# csdfgen/emission/source.py
lost: an array without elements has none in C
- yield f"    {kind} {word}[{self.size(word)} + !{self.size(word)}];"
+ yield f"    {kind} {word}[{self.size(word)}];"
# csdfgen/serving/engine.py
bound: the queue takes one image more
- if self._desk.waiting + images > self._queue:
+ if self._desk.waiting + images > self._queue + 1:
stale: a request of several images gets the first one again
- return {name: array[number : number + 1] for name, array in both}
+ return {name: array[:1] for name, array in both}
count: late answers are not counted
- self.counts["late"] += request.ended > request.deadline
+ self.counts["late"] += request.ended > request.deadline + 1e9
# csdfgen/serving/times.py
bound: the arena of a batch is that of the next smaller one
- (size for b, size in zip(one.batches, one.arena, strict=True) if b >= batch),
+ (size for b, size in zip(one.batches, one.arena, strict=True) if b >= batch - 1),
check: descending batches are read
- if not batches or batches[0] != 1 or any(a >= b for a, b in pairwise(batches)):
+ if not batches or batches[0] != 1:
# csdfgen/serving/policies/adaptive.py
lost: an answer that comes too late joins
- count and view.now + self._factor * (front[count] + rest[top.images + count]) > due
+ count and view.now + self._factor * front[count] > due
sign: requests of lower priority come first
- return -request.priority, due, request.number
+ return request.priority, due, request.number
# csdfgen/sweeps/spec.py
count: every grid may have as many points as all
- points += _points(asked, _MOST_POINTS - len(points))
+ points += _points(asked, _MOST_POINTS)
# csdfgen/tuning/file.py
sign: times of fewer frames replace those of more
- if variant not in there or there[variant].frames <= timing.frames:
+ if variant not in there or there[variant].frames > timing.frames:
sign: a variant is chosen that is hardly faster
- if usual is not None and found.seconds > usual.seconds - max(
+ if usual is not None and found.seconds > usual.seconds - min(
# csdfgen/charts/svg.py
bound: large bytes are shown in the smaller unit
- scale, name = (1e9, "GB") if value >= 1e9 else (1e6, "MB") if value >= 1e6 else (1e3, "kB")
+ scale, name = (1e9, "GB") if value >= 1e9 else (1e6, "MB") if value >= 1e7 else (1e3, "kB")
# csdfgen/charts/replay.py
check: a chart shows more than a channel holds
- if limit is not None and claimed > limit:
+ if limit is not None and claimed > limit + 1:
# csdfgen/pages/layers.py
bound: the most bytes of a layer are those of its last buffer
- most[owner.layer] = max(most[owner.layer], int(np.cumsum(changes).max(initial=0)))
+ most[owner.layer] = int(np.cumsum(changes).max(initial=0))
# csdfgen/pages/trace.py
order: the shortest layers are listed first
- return tuple(sorted(found, key=lambda layer: -layer.seconds))
+ return tuple(sorted(found, key=lambda layer: layer.seconds))
# runtime/images.py
bound: labels of another number of classes are taken
- if labels is not None and len(labels) not in counts.values():
+ if labels is not None and len(labels) < max(counts.values(), default=0):
# csdfgen/cli/schedule.py
check: a chart without a file is forgotten
- yield chart and output is None, f"--chart {chart} writes .svg; say where with -o FILE.svg"
+ yield chart and output is not None, f"--chart {chart} writes .svg; say where with -o FILE.svg"
# csdfgen/cli/graphs.py
check: two files of capacities are read as one
- if file is not None:
+ if file == text:
# csdfgen/cli/convert.py
option: the way that capacities are written is not handed on
- capacities_as=self.capacities_as or usual,
+ capacities_as=usual,
# csdfgen/cli/quantize.py
check: a model is written over itself
- return output.samefile(model)
+ return output == model
# csdfgen/cli/compare.py
sign: tensors that grew are shown as smaller
- changed = f"{_number(a)} > {_number(b)}"
+ changed = f"{_number(b)} > {_number(a)}"
# csdfgen/cache.py
check: files of other users are loaded
- if found.st_uid not in (os.getuid(), 0):
+ if found.st_uid < 0:
bound: one entry more than needed is removed
- if total <= most:
+ if total < most // 2:
# csdfgen/files.py
bound: a file of exactly the limit is refused
- if len(data) > limit:
+ if len(data) >= limit:
check: a key that occurs twice is read
- if len(found) != len(pairs):
+ if len(found) > len(pairs):
check: a version from the future is read
- if number > version:
+ if number > version + 1:
# csdfgen/limits.py
count: a budget forgets what was taken
- total = self.taken(kind) + count
+ total = count
# csdfgen/stopping.py
stale: a request to stop outlives the command
- _request.stopped = _request.kept = False
+ _request.kept = False
# csdfgen/api.py
option: the unit of buffers is not handed on
- unit=unit or ("tokens" if isinstance(graph, CsdfGraph) else "bytes"),
+ unit="tokens" if isinstance(graph, CsdfGraph) else "bytes",
check: a plan for other shapes is read
- if shapes != saved.inputs or net.batch != saved.batch:
+ if net.batch != saved.batch:
option: repeat is not handed on
- plan, given(plan.network), source, check=check, threads=threads, repeat=repeat,
+ plan, given(plan.network), source, check=check, threads=threads,
# schedules/liveness.py
bound: a self-loop allows a firing more than its tokens
- if held < taken:
+ if held < taken - 1:
# schedules/selftimed.py
sign: the least place of a channel is its most
- if left < least[number]:
+ if left > least[number]:
bound: a state under way does not know how long
- under_way = sorted((time - self.now, number) for time, number, _ in self.events)
+ under_way = sorted((0, number) for time, number, _ in self.events)
# schedules/sizing.py
bound: a lower bound of a self-loop is a firing short
- return link.tokens + int((produced[1:] - consumed[:-1]).max())
+ return link.tokens + int((produced[:-1] - consumed[:-1]).max())
bound: halving ends one too low
- low, high = (middle, high) if holds(middle) else (low, middle)
+ low, high = (middle, high) if holds(middle) else (low, middle - 1)
# schedules/check.py
check: a firing out of turn is accepted
- if firing.phase != due:
+ if firing.phase > due:
check: a capacity may be exceeded by a token
- if claimed > capacity:
+ if claimed > capacity + 1:
# schedules/peak/barriers.py
bound: segments whose peak is just the limit are left out
- if peak > limit:
+ if peak >= limit:
# schedules/batches/baselines.py
bound: the largest batch that fits is one smaller
- return max((b for b in range(1, images + 1) if _fits(chain, b, memory)), default=0)
+ return max((b for b in range(1, images) if _fits(chain, b, memory)), default=0)
# schedules/batches/chain.py
count: the bytes that a call holds do not depend on its images
- return images * (self.input_bytes + self.output_bytes) + self.workspace[images - 1]
+ return self.input_bytes + images * self.output_bytes + self.workspace[images - 1]
# sdf3_bridge/iteration.py
bound: the largest count that SDF3 reads is refused
- if value >= MAX_COUNT:
+ if value > MAX_COUNT:
# sdf3_bridge/sdf3read.py
check: ports with lists of other lengths are read
- if first is not None and len(rates) != len(first.rates):
+ if first is not None and len(rates) < len(first.rates):
lost: a port that is written to is read from
- if port.direction != direction:
+ if port.direction == "both":
# sdf3_bridge/sdf3write.py
lost: the size of tokens is not written
- size = f' size="{channel.token_bytes}"' if channel.token_bytes != 1 else ""
+ size = f' size="{channel.token_bytes}"' if channel.token_bytes == 1 else ""
# sdf3_bridge/prepare.py
lost: a serial self-loop is lost in a sizing
- outside.append(channel)
+ outside.append(channel) if len(outside) < 1 else None
# zoo_models/mobilenet.py
check: every residual of an inverted bottleneck is added
- x = b.add(y, x) if stride == 1 and x.channels == channels else y
+ x = b.add(y, x) if stride == 1 and x.channels == channels and channels > 24 else y
# zoo_models/shufflenet.py
lost: channels are not shuffled
- return b.shuffle(b.concat([passed, y]), 2)
+ return b.concat([passed, y])
# zoo_models/_entry.py
bound: the smallest size that works is one step higher
- return step * (1 + bisect_left(sizes, True, key=works))
+ return step * (2 + bisect_left(sizes, True, key=works))
# csdfgen/paper/deadlock.py
bound: a channel that is full counts as room
- return held[channel.name] + channel.production[phase] <= capacities[channel.name]
+ return held[channel.name] + channel.production[phase] <= capacities[channel.name] + 1
# csdfgen/paper/cells.py
bound: a printed number that is off by more counts as the same
- near = abs(self.ours - self.printed) <= self.within
+ near = abs(self.ours - self.printed) <= 2 * self.within
# benchmarks/expert_gate.py
lost: the shares of experts that were chosen do not add up to 1
- return best, kept / kept.sum(axis=-1, keepdims=True)
+ return best, kept
# csdfgen/paper/batches/memory.py
count: a convolution's columns count for one image
- return own + images * _VALUE * layer.terms * prod(layer.writes[1:])
+ return own + _VALUE * layer.terms * prod(layer.writes[1:])
# csdfgen/model/network.py
axis: axes are turned the wrong way
- return tuple((i - axis) % axes for i in range(axes))
+ return tuple((i + axis) % axes for i in range(axes))
check: two layers exclude each other if all of their branches do
- return any(taken.get(branch, chosen) is not chosen for branch, chosen in other)
+ return all(taken.get(branch, chosen) is not chosen for branch, chosen in other)
stale: layers with another scalar share phases and workspaces
- if constant.dtype.kind == "f" and constant.size > 1:
+ if constant.dtype.kind == "f":
# csdfgen/dataflow/transform.py
lost: space channels forget the tokens that are there
- free = capacities[channel.name] - channel.initial_tokens
+ free = capacities[channel.name]
lost: larger tokens do not divide those that are there
- unit = gcd(*channel.production, *channel.consumption, channel.initial_tokens)
+ unit = gcd(*channel.production, *channel.consumption)
# csdfgen/dataflow/graph.py
check: two channels of one name are accepted
- if channel.name in names:
+ if channel.name in phases:
# csdfgen/sweeps/run.py
stale: points that are known are planned again
- left = [key for key in by_key if key not in known]
+ left = list(by_key)
# benchmarks/demo/centerface.py
check: pictures of any width are taken
- if height % MULTIPLE or width % MULTIPLE:
+ if height % MULTIPLE:
"""
