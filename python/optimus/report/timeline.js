// The page of `optimus-report timeline`.
'use strict';

(async () => {
  const started = performance.now();
  const of = unpack(data.boxes.function), command = unpack(data.boxes.command);
  const boxes = {
    left: unpack(data.boxes.left),
    right: unpack(data.boxes.right),
    bottom: unpack(data.boxes.bottom),
    top: unpack(data.boxes.top),
    kind: unpack(data.boxes.kind),
    colours: data.colours,
    words: (i) => data.commands[of[i]].path[command[i]],
    text: (i) => {
      const each = data.commands[of[i]], at = command[i];
      return [
        (each.name[at] || each.kind[at]) + ' ' + each.path[at],
        each.source[at],
        'command ' + at + ' of ' + each.function,
        asTime((boxes.right[i] - boxes.left[i]) * 1e6) + ', from ' +
          boxes.left[i].toFixed(3) + ' ms',
      ].filter(Boolean).join('\n');
    },
  };
  const time = await plot('time');
  const gantt = new Boxes(time, boxes, data.stripes);
  connectSearch(gantt);
  connectLegend(gantt);
  window.gantt = gantt;
  document.body.dataset.drawn = Math.round(performance.now() - started);
})();
