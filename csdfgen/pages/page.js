"use strict";
// What is under the pointer: the layer that fires, what is alive, the row that is stored at an address.
(() => {
  const source = document.getElementById("footprint");
  if (!source) return;
  const plan = JSON.parse(source.textContent);
  const [owner, row, end, low, high, first, last] = plan.columns;
  const order = new Int32Array(plan.firings), phase = new Int32Array(plan.firings);
  const fired = new Int32Array(plan.layers.length);
  let at = 0;
  for (const [layer, count] of plan.runs)
    for (let k = 0; k < count; k++, at++) { order[at] = layer; phase[at] = fired[layer]++; }

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const charts = [...document.querySelectorAll("svg[data-kind]")].map((svg) => {
    for (const title of svg.querySelectorAll("title")) title.remove();
    const [left, right, top, bottom] = svg.dataset.panel.split(" ").map(Number);
    const cross = document.createElementNS(svg.namespaceURI, "line");
    cross.setAttribute("class", "cross");
    cross.setAttribute("visibility", "hidden");
    cross.setAttribute("y1", top);
    cross.setAttribute("y2", bottom);
    svg.append(cross);
    return { svg, cross, left, right, top, bottom, kind: svg.dataset.kind, most: Number(svg.dataset.most) };
  });

  const bytes = (n) => {
    if (n < 1000) return `${n} B`;
    const [scale, unit] = n >= 1024000 ? [1048576, "MiB"] : [1024, "KiB"];
    const value = n / scale;
    return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  };
  const count = (n) => n.toLocaleString("en");
  const fires = (f) => `firing ${count(f + 1)}: ${plan.layers[order[f]]}, phase ${count(phase[f] + 1)}`;

  function alive(f) {
    const held = new Map();
    let total = 0;
    for (let k = 0; k < owner.length; k++) {
      if (first[k] > f || last[k] <= f) continue;
      const [layer, , kind] = plan.owners[owner[k]];
      const name = kind === "workspace" ? "workspace" : plan.layers[layer];
      const there = high[k] - low[k], size = kind === "workspace" ? Math.min(there, plan.needed[f]) : there;
      held.set(name, (held.get(name) || 0) + size);
      total += size;
    }
    const largest = [...held].sort((a, b) => b[1] - a[1]);
    const lines = largest.slice(0, 6).map(([name, size]) => `${bytes(size)}  ${name}`);
    if (largest.length > 6) lines.push(`and ${largest.length - 6} others`);
    return `${bytes(total)} alive in ${fires(f)}\n${lines.join("\n")}`;
  }

  function stored(f, address) {
    for (let k = 0; k < owner.length; k++) {
      if (first[k] > f || last[k] <= f || low[k] > address || high[k] <= address) continue;
      const [layer, tensor, kind, there] = plan.owners[owner[k]];
      if (!there) continue;
      const size = high[k] - low[k];
      const from = `bytes ${count(low[k])} to ${count(high[k])} (${bytes(size)})`;
      const when = `alive in firings ${count(first[k] + 1)} to ${count(last[k])}`;
      if (kind === "workspace") return `workspace of ${plan.layers[layer]}\n${from}\nin ${fires(f)}`;
      const rows = end[k] - row[k] === 1 ? `row ${count(row[k] + 1)}` : `rows ${count(row[k] + 1)} to ${count(end[k])}`;
      return `${rows} of ${kind === "state" ? "the sums" : tensor}\nof ${plan.layers[layer]} (${plan.functions[layer]})\n${from}\n${when}`;
    }
    return `free: byte ${count(address)}\nin ${fires(f)}`;
  }

  function phases(f, line) {
    const name = plan.layers[line];
    if (name === undefined) return fires(f);
    return `${name} (${plan.functions[line]}): ${count(fired[line])} phases\n${fires(f)}`;
  }

  function hide() {
    tip.hidden = true;
    for (const one of charts) one.cross.setAttribute("visibility", "hidden");
  }

  for (const chart of charts) {
    const point = (event) => {
      const box = chart.svg.getBoundingClientRect(), scale = chart.svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      const part = (x - chart.left) / (chart.right - chart.left);
      const up = (chart.bottom - y) / (chart.bottom - chart.top);
      if (part < 0 || part >= 1 || up < 0 || up >= 1) return hide();
      const f = Math.min(plan.firings - 1, Math.floor(part * plan.firings));
      tip.textContent =
        chart.kind === "memory" ? alive(f)
        : chart.kind === "arena" ? stored(f, Math.floor(up * chart.most))
        : phases(f, Math.floor((1 - up) * chart.most));
      for (const one of charts) {
        const at = one.left + ((f + 0.5) / plan.firings) * (one.right - one.left);
        one.cross.setAttribute("x1", at);
        one.cross.setAttribute("x2", at);
        one.cross.setAttribute("visibility", "visible");
      }
      tip.hidden = false;
      const size = tip.getBoundingClientRect();
      const beyond = event.clientX + 14 + size.width > innerWidth;
      const below = event.clientY + 14 + size.height > innerHeight;
      tip.style.left = `${Math.max(8, beyond ? event.clientX - size.width - 14 : event.clientX + 14)}px`;
      tip.style.top = `${Math.max(8, below ? event.clientY - size.height - 14 : event.clientY + 14)}px`;
    };
    chart.svg.addEventListener("pointermove", point);
    chart.svg.addEventListener("pointerdown", point);
    chart.svg.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", hide, { passive: true });
})();
