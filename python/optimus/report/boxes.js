// Boxes in time, on a canvas behind an empty Plotly graph: Plotly has the axes, the
// zoom and the other curves, the canvas thousands of boxes that SVG would crawl with.
'use strict';

/// `boxes`: left, right, bottom, top, kind (arrays, in units of the axes), `colours`
/// of kinds, `text(i)` of a box and `words(i)` that a search looks into.
/// `stripes`: [begin, end, name] of spans of time with a ground of their own.
class Boxes {
  constructor(graph, boxes, stripes) {
    this.graph = graph;
    this.boxes = boxes;
    this.stripes = stripes;
    this.found = null;
    this.hidden = new Set();
    this.canvas = document.createElement('canvas');
    graph.parentNode.insertBefore(this.canvas, graph);
    // While a drag goes on, too.
    for (const event of ['plotly_relayouting', 'plotly_relayout', 'plotly_afterplot'])
      graph.on(event, () => this.draw());
    graph.addEventListener('mousemove', (event) => this.point(event));
    graph.addEventListener('mouseleave', () => this.tip(null));
    this.draw();
  }

  /// The plot's place on the page, and its axes.
  frame() {
    const layout = this.graph._fullLayout;
    const {xaxis: x, yaxis: y} = layout;
    return {x, y, left: x._offset, top: y._offset, width: x._length, height: y._length};
  }

  draw() {
    const {x, y, left, top, width, height} = this.frame();
    const ratio = window.devicePixelRatio || 1;
    const canvas = this.canvas;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = width * ratio;
    if (canvas.height !== Math.round(height * ratio)) canvas.height = height * ratio;
    Object.assign(canvas.style,
      {left: left + 'px', top: top + 'px', width: width + 'px', height: height + 'px'});
    const [from, to] = x.range, [low, high] = y.range;
    const ink = canvas.getContext('2d');
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, height);
    const perX = width / (to - from), perY = height / (high - low);
    this.drawStripes(ink, (time) => (time - from) * perX, height);
    const {left: begin, right: end, bottom, top: above, kind, colours} = this.boxes;
    for (let i = 0; i < begin.length; ++i) {
      if (end[i] < from || begin[i] > to || above[i] < low || bottom[i] > high) continue;
      if (this.hidden.has(kind[i])) continue;
      ink.fillStyle = colours[kind[i]];
      ink.globalAlpha = this.found && !this.found[i] ? 0.08 : 0.85;
      const w = (end[i] - begin[i]) * perX, h = (above[i] - bottom[i]) * perY;
      // What is thinner than a point would not be seen.
      ink.fillRect((begin[i] - from) * perX, height - (above[i] - low) * perY,
        Math.max(w > 3 ? w - 0.5 : w, 0.6), Math.max(h > 3 ? h - 0.5 : h, 0.6));
    }
    ink.globalAlpha = 1;
  }

  drawStripes(ink, place, height) {
    this.stripes.forEach(([begin, end, name], i) => {
      ink.fillStyle = i % 2 ? '#f1f1f1' : '#f8f8f8';
      ink.fillRect(place(begin), 0, place(end) - place(begin), height);
      ink.fillStyle = '#999';
      ink.font = '11px system-ui, sans-serif';
      ink.fillText(name, Math.max(place(begin), 0) + 4, 12);
    });
  }

  /// The topmost box at a point, or -1. What is thin is found two points around it.
  at(time, height, aroundTime, aroundHeight) {
    const {left, right, bottom, top, kind} = this.boxes;
    for (let i = left.length - 1; i >= 0; --i)
      if (left[i] - aroundTime <= time && time <= right[i] + aroundTime &&
          bottom[i] - aroundHeight <= height && height <= top[i] + aroundHeight &&
          !this.hidden.has(kind[i]))
        return i;
    return -1;
  }

  point(event) {
    const {x, y, left, top, width, height} = this.frame();
    const place = this.graph.getBoundingClientRect();
    const right = event.clientX - place.left - left;
    const down = event.clientY - place.top - top;
    if (right < 0 || right > width || down < 0 || down > height) return this.tip(null);
    const perX = (x.range[1] - x.range[0]) / width;
    const perY = (y.range[1] - y.range[0]) / height;
    const box = this.at(x.range[0] + right * perX, y.range[1] - down * perY,
      perX, perY);
    this.tip(box < 0 ? null : this.boxes.text(box), event);
  }

  tip(text, event) {
    const tip = document.getElementById('tip');
    tip.style.display = text === null ? 'none' : 'block';
    if (text === null) return;
    tip.textContent = text;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth) + 'px';
    tip.style.top = (event.clientY + 14) + 'px';
  }

  /// Dims all boxes that do not have `words`; gives the number of those that do.
  search(words) {
    const wanted = words.trim().toLowerCase();
    const count = this.boxes.left.length;
    this.found = wanted ? new Uint8Array(count) : null;
    let matches = 0;
    for (let i = 0; wanted && i < count; ++i)
      if (this.boxes.words(i).toLowerCase().includes(wanted)) matches += this.found[i] = 1;
    this.draw();
    return wanted ? matches : count;
  }
}

/// A field that searches in boxes, and says how many it found.
function connectSearch(boxes) {
  const field = document.getElementById('search');
  const said = document.getElementById('matches');
  field.addEventListener('input', () => {
    const count = boxes.search(field.value);
    said.textContent = field.value.trim() ? count.toLocaleString() + ' found' : '';
  });
}

/// What is clicked away in the legend goes from the boxes, too.
function connectLegend(boxes) {
  boxes.graph.on('plotly_restyle', () => {
    const away = boxes.graph.data.filter(
      (curve) => curve.visible === 'legendonly' && 'category' in (curve.meta || {}));
    boxes.hidden = new Set(away.map((curve) => curve.meta.category));
    boxes.draw();
  });
}
