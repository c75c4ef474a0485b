// The page of `optimus-report memory`.
'use strict';

(async () => {
  const started = performance.now();
  const {blocks, categories} = data;
  const of = unpack(data.boxes.block);
  const begin = unpack(data.boxes.left), end = unpack(data.boxes.right);
  const boxes = {
    left: begin,
    right: end,
    bottom: unpack(data.boxes.bottom),
    top: unpack(data.boxes.top),
    kind: unpack(data.boxes.kind),
    colours: data.colours,
    words: (i) => blocks.path[of[i]],
    text: (i) => [
      blocks.path[of[i]] || blocks.name[of[i]],
      blocks.source[of[i]],
      asSize(blocks.bytes[of[i]]) + ' ' + categories[boxes.kind[i]] +
        ' at ' + boxes.bottom[i].toLocaleString(),
      'alive for ' + asTime((end[i] - begin[i]) * 1e6) + ', from ' +
        begin[i].toFixed(3) + ' to ' + end[i].toFixed(3) + ' ms',
    ].filter(Boolean).join('\n'),
  };
  const time = await plot('time');
  const gantt = new Boxes(time, boxes, data.stripes);
  connectSearch(gantt);
  connectLegend(gantt);
  await plot('idle');
  await plot('lifetimes');
  window.gantt = gantt;
  document.body.dataset.drawn = Math.round(performance.now() - started);
})();
