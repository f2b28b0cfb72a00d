// The cluster as a picture: where every GPU lies, and painting them. Layout and paint are apart, since colours change often and
// places hardly ever. Ten thousand GPUs are ten thousand rectangles on one canvas, which takes a few milliseconds.

const SIZES = [34, 28, 22, 18, 15, 12, 10, 8, 7, 6, 5, 4];
const GAP = 1, NODE_GAP = 5, PAD = 7, LABEL = 17, TITLE = 27, GROUP_GAP = 12;

/** Domains of the last level within those of the levels above: [{titles: ['north'], label: 'rack-0', nodes: [index…]}…]. */
const grouped = (nodes) => {
  const groups = new Map();
  nodes.forEach((node, i) => {
    const key = node.path.join('\n');
    if (!groups.has(key)) groups.set(key, { titles: node.path.slice(0, -1), label: node.path.at(-1) || '', nodes: [] });
    groups.get(key).nodes.push(i);
  });
  return [...groups.values()];
};

const columnsOf = (gpus) => (gpus <= 2 ? gpus || 1 : gpus <= 4 ? 2 : Math.min(Math.ceil(gpus / 2), 8));

/** `wide`: how much wider than high a rack may be. */
const attempt = (nodes, groups, width, cell, wide) => {
  const step = cell + GAP;
  const boxes = [], places = new Array(nodes.length), titles = [];
  let x = 0, y = 0, rowHeight = 0, over = null;
  for (const group of groups) {
    const title = group.titles.join(' / ');
    if (title !== over) {
      if (over !== null) { y += rowHeight + GROUP_GAP; x = 0; rowHeight = 0; }
      if (title) { titles.push({ text: title, x: 0, y: y + 15 }); y += TITLE; }
      over = title;
    }
    const gpus = Math.max(...group.nodes.map((i) => nodes[i].gpus), 1);
    const nodeWidth = columnsOf(gpus) * step - GAP, nodeHeight = Math.ceil(gpus / columnsOf(gpus)) * step - GAP;
    const count = group.nodes.length, room = Math.floor((width - 2 * PAD + NODE_GAP) / (nodeWidth + NODE_GAP));
    const perRow = Math.max(Math.min(group.label ? Math.ceil(Math.sqrt((wide * count * nodeHeight) / nodeWidth)) : room, count, room), 1);
    const rows = Math.ceil(count / perRow), label = group.label ? LABEL : 0;
    const boxWidth = perRow * (nodeWidth + NODE_GAP) - NODE_GAP + 2 * PAD;
    const boxHeight = rows * (nodeHeight + NODE_GAP) - NODE_GAP + 2 * PAD + label;
    if (x > 0 && x + boxWidth > width) { x = 0; y += rowHeight + GROUP_GAP; rowHeight = 0; }
    boxes.push({ x, y, width: boxWidth, height: boxHeight, label: group.label });
    group.nodes.forEach((i, at) => {
      places[i] = {
        x: x + PAD + (at % perRow) * (nodeWidth + NODE_GAP), y: y + PAD + label + Math.floor(at / perRow) * (nodeHeight + NODE_GAP),
        width: nodeWidth, height: nodeHeight, columns: columnsOf(gpus),
      };
    });
    x += boxWidth + GROUP_GAP;
    rowHeight = Math.max(rowHeight, boxHeight);
  }
  return { cell, step, boxes, places, titles, height: y + rowHeight };
};

/** Where everything goes: as large as fits `height`, small enough for `width`; it may be higher where there is no way around. */
export const layout = (nodes, width, height) => {
  const groups = grouped(nodes);
  let found = null;
  for (const cell of SIZES) {
    for (const wide of [1, 2, 3.5]) {
      found = attempt(nodes, groups, width, cell, wide);
      if (found.height <= height) break;
    }
    if (found.height <= height) break;
  }
  const first = [0];
  nodes.forEach((node, i) => first.push(first[i] + node.gpus));
  return { ...found, width, first };
};

/** The GPU at a point as {node, gpu}; `gpu` is -1 between the GPUs of a node; null outside of all. */
export const at = (map, nodes, x, y) => {
  for (let i = 0; i < map.places.length; i++) {
    const place = map.places[i];
    if (x < place.x - 2 || y < place.y - 2 || x > place.x + place.width + 2 || y > place.y + place.height + 2) continue;
    const column = Math.floor((x - place.x) / map.step), row = Math.floor((y - place.y) / map.step);
    const gpu = row * place.columns + column;
    return { node: i, gpu: column >= 0 && column < place.columns && row >= 0 && gpu < nodes[i].gpus ? gpu : -1 };
  }
  return null;
};

export const boxOf = (map, node, gpu) => {
  const place = map.places[node];
  if (gpu < 0) return { x: place.x, y: place.y, width: place.width, height: place.height };
  return { x: place.x + (gpu % place.columns) * map.step, y: place.y + Math.floor(gpu / place.columns) * map.step, width: map.cell, height: map.cell };
};

/** Paints all of it. `colour(gpu)` is a GPU's, `fill(gpu)` how much of it is taken, 0 to 1. */
export const paint = (canvas, map, nodes, colour, fill, tones, font) => {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const width = Math.round(map.width * ratio), height = Math.max(Math.round(map.height * ratio), 1);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.style.setProperty('width', `${map.width}px`);
    canvas.style.setProperty('height', `${map.height}px`);
  }
  const on = canvas.getContext('2d');
  on.setTransform(ratio, 0, 0, ratio, 0, 0);
  on.clearRect(0, 0, map.width, map.height);
  on.fillStyle = tones.text;
  on.font = `600 14px ${font}`;
  for (const title of map.titles) on.fillText(title.text, title.x, title.y);
  on.font = `11px ${font}`;
  for (const box of map.boxes) {
    on.fillStyle = tones.sunk;
    on.beginPath();
    on.roundRect(box.x, box.y, box.width, box.height, 7);
    on.fill();
    if (box.label) {
      on.fillStyle = tones.soft;
      on.fillText(fitted(on, box.label, box.width - 2 * PAD), box.x + PAD, box.y + 16);
    }
  }
  for (let i = 0; i < nodes.length; i++) {
    const place = map.places[i], node = nodes[i], start = map.first[i];
    for (let g = 0; g < node.gpus; g++) {
      const x = place.x + (g % place.columns) * map.step, y = place.y + Math.floor(g / place.columns) * map.step;
      const part = fill(start + g);
      if (part < 1) {
        on.fillStyle = node.state === 'up' ? tones.free : tones.down;
        on.fillRect(x, y, map.cell, map.cell);
      }
      if (part > 0) {
        on.fillStyle = colour(start + g);
        const tall = Math.max(Math.round(map.cell * part), 1);
        on.fillRect(x, y + map.cell - tall, map.cell, tall);
      }
    }
    if (node.state !== 'up') {
      on.strokeStyle = node.state === 'drained' ? tones.drained : tones.bad;
      on.lineWidth = 2;
      on.strokeRect(place.x - 2, place.y - 2, place.width + 4, place.height + 4);
    }
  }
};

const fitted = (on, text, room) => {
  if (on.measureText(text).width <= room) return text;
  const short = text.split('-').slice(-2).join('-');
  if (on.measureText(short).width <= room) return short;
  const last = text.split('-').at(-1);
  return on.measureText(last).width <= room ? last : '';
};
