// The page of `optimus-report study`.
'use strict';

/// Of a trial by its number: what came of it, and its values.
function aboutTrial(number) {
  const [said, ...values] = data.trials.rows[number];
  const its = values.map((value, i) => value && `${data.trials.names[i]} ${value}`);
  return [said, ...its.filter((line) => line)].join('<br>');
}

(async () => {
  const started = performance.now();
  for (const [name, figure] of Object.entries(data.figures)) {
    for (const curve of figure.data.filter((curve) => curve.trials))
      curve.text = curve.trials.map((number) => number === null ? '' : aboutTrial(number));
    await plot(name);
  }
  document.body.dataset.drawn = Math.round(performance.now() - started);
})();
