// What all pages need: arrays, Plotly's figures, and numbers for people.
'use strict';

/// An array that optimus.report.html.numbers() wrote.
function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.f64), (c) => c.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

function asTime(ns) {
  for (const [scale, unit] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']])
    if (Math.abs(ns) >= scale) return (ns / scale).toPrecision(3) + ' ' + unit;
  return ns + ' ns';
}

function asSize(bytes) {
  for (const [scale, unit] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']])
    if (bytes >= scale) return (bytes / scale).toFixed(2) + ' ' + unit;
  return bytes + ' bytes';
}

const config = {responsive: true, scrollZoom: true, displaylogo: false};

/// Draws the figure of `data.figures` into the element of its name.
function plot(name) {
  const {data: curves, layout} = data.figures[name];
  const modebar = {bgcolor: 'rgba(0,0,0,0)', color: '#bbb', activecolor: '#666'};
  return Plotly.newPlot(name, curves, {...layout, modebar}, config);
}
