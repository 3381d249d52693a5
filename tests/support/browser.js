// What a reader's eye would trip over, measured in a browser: measure(window) of a page in a frame -> {name: [findings]}.

const luminance = ([r, g, b]) => {
  const line = (part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * line(r) + 0.7152 * line(g) + 0.0722 * line(b);
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const parts = (color) => {
  const found = color.match(/rgba?\(([^)]*)\)/);
  return found ? found[1].split(/[ ,/]+/).map(Number) : null;
};
const solid = (color) => {
  const rgb = parts(color || "");
  return rgb && (rgb.length < 4 || rgb[3] > 0.5) ? rgb.slice(0, 3) : null;
};

function texts(win) {
  // every piece of text that is drawn: its element, its box, its words
  const doc = win.document;
  const walker = doc.createTreeWalker(doc.body, 4);
  const found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const words = node.textContent.trim();
    const element = node.parentElement;
    if (!words || element.closest("script,style,.vh,defs") || !element.checkVisibility({ visibilityProperty: true })) continue;
    const range = doc.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width > 1 && box.height > 1) found.push({ element, box, words: words.slice(0, 40) });
    }
  }
  return found;
}

function size(win, element) {
  const svg = element.ownerSVGElement;
  const scale = svg && svg.viewBox.baseVal.width ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  return parseFloat(win.getComputedStyle(element).fontSize) * scale;
}

function behind(win, element, box) {
  // the colour behind a text: of the shape below it in a drawing, else of the nearest element that has one
  const doc = win.document;
  if (element.ownerSVGElement) {
    const stack = doc.elementsFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    for (const shape of stack) {
      if (shape === element || shape.tagName === "text") continue;
      if (!shape.ownerSVGElement) break;
      const fill = solid(win.getComputedStyle(shape).fill);
      if (fill && shape.tagName !== "g") return fill;
    }
  }
  for (let at = element; at; at = at.parentElement) {
    const color = solid(win.getComputedStyle(at).backgroundColor);
    if (color) return color;
  }
  return [255, 255, 255];
}

function measure(win) {
  const doc = win.document;
  const width = win.innerWidth;
  const found = { overflow: [], small: [], overlap: [], contrast: [], colours: [], pictures: [], requests: [], first: [] };
  const root = doc.documentElement;
  if (root.scrollWidth > width) {
    const wide = [...doc.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > width + 1 && !e.closest(".scroll,pre,.of"));
    found.overflow.push(`${root.scrollWidth} px: ${wide.slice(0, 3).map((e) => e.tagName + "." + (e.className.baseVal ?? e.className)).join(", ")}`);
  }
  const all = texts(win);
  for (const { element, words } of all) {
    const px = size(win, element);
    if (px < 10.95) found.small.push(`${px.toFixed(1)} px: ${words}`);
  }
  const inside = all.filter(({ element }) => !element.closest(".scroll,pre,details:not([open])"));
  inside.sort((a, b) => a.box.top - b.box.top);
  inside.forEach((one, place) => {
    for (let next = place + 1; next < inside.length; next += 1) {
      const [a, b] = [one.box, inside[next].box];
      if (b.top > a.bottom) break;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1.5 && high > 0.45 * Math.min(a.height, b.height)) found.overlap.push(`${one.words} | ${inside[next].words}`);
    }
  });
  for (const { element, box, words } of all) {
    const style = win.getComputedStyle(element);
    const color = solid(element.ownerSVGElement ? style.fill : style.color);
    if (!color) continue;
    const ratio = contrast(color, behind(win, element, box));
    if (ratio < 4.5) found.contrast.push(`${ratio.toFixed(2)}: ${words}`);
  }
  const probe = doc.body.appendChild(doc.createElement("i"));
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return solid(win.getComputedStyle(probe).color);
  };
  for (const name of ["ink", "muted", "link", "cuda", "triton", "gluon", "tlx", "lib", "bad"]) {
    for (const under of ["paper", "panel"]) {
      const ratio = contrast(colour(name), colour(under));
      if (ratio < 4.5) found.colours.push(`${name} on ${under}: ${ratio.toFixed(2)}`);
    }
  }
  probe.remove();
  for (const svg of doc.querySelectorAll("figure svg")) {
    if (!svg.checkVisibility()) continue;
    const box = svg.getBoundingClientRect();
    const drawn = svg.querySelectorAll("path,rect,circle,line,text,use").length;
    if (box.width < 40 || box.height < 10 || drawn < 3) found.pictures.push(`${box.width} x ${box.height}, ${drawn} shapes`);
  }
  for (const entry of win.performance.getEntriesByType("resource")) {
    if (!entry.name.startsWith("file:") && !entry.name.startsWith("data:")) found.requests.push(entry.name);
  }
  return found;
}
