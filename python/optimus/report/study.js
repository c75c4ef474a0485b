// The page of `optimus-report study`.
'use strict';

(async () => {
  const started = performance.now();
  for (const name of Object.keys(data.figures)) await plot(name);
  document.body.dataset.drawn = Math.round(performance.now() - started);
})();
