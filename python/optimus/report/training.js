// The page of `optimus-report run`.
'use strict';

(async () => {
  const started = performance.now();

  /// Seconds in the unit that the longest run has some of.
  const longest = Math.max(0, ...data.runs.flatMap((columns) =>
    Object.values(columns).map((each) => unpack(each.seconds).at(-1))));
  const [scale, unit] = [[3600, 'h'], [60, 'min'], [1, 's']]
    .find(([size]) => longest >= size) || [1, 's'];

  /// The places of a curve's points.
  function across(curve, axis) {
    const places = unpack(data.runs[curve.meta.run][curve.meta.column][axis]);
    return axis === 'seconds' ? places.map((each) => each / scale) : places;
  }

  const curves = data.figures.curves.data;
  for (const curve of curves) {
    curve.y = unpack(curve.y);
    curve.x = across(curve, 'steps');
  }
  const graph = await plot('curves');
  await plot('memory');

  async function choose(axis) {
    const title = data.axes[axis] + (axis === 'seconds' ? ', ' + unit : '');
    await Plotly.restyle(graph, {x: curves.map((curve) => across(curve, axis))});
    await Plotly.relayout(graph, {'xaxis.title.text': title, 'xaxis.autorange': true});
  }
  for (const [axis, name] of Object.entries(data.axes)) {
    const label = document.createElement('label');
    const button = document.createElement('input');
    Object.assign(button, {type: 'radio', name: 'axis', value: axis, checked: axis === 'steps'});
    button.addEventListener('change', () => choose(axis));
    label.append(button, ' ' + name.toLowerCase());
    document.getElementById('axes').append(label);
  }
  window.choose = choose;
  document.body.dataset.drawn = Math.round(performance.now() - started);
})();
