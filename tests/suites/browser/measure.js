// What a page looks like to whoever reads it. Evaluated beside the page; nothing of this is in it.
(() => {
  const number = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const visible = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };
  // WCAG 2.1, relative luminance and contrast ratio.
  const luminance = (colour) => {
    const [r, g, b] = number(colour).slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [a, b] = [luminance(one), luminance(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const opaque = (colour) => colour && colour !== 'none' && !/, 0\)$/.test(colour);
  const behind = (element) => {
    const box = element.getBoundingClientRect();
    const stack = document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    for (const other of stack.slice(stack.indexOf(element) + 1)) {
      const style = getComputedStyle(other);
      if (other.tagName === 'rect' && opaque(style.fill)) return style.fill;
      if (!(other instanceof SVGElement) && opaque(style.backgroundColor)) return style.backgroundColor;
    }
    const page = document.body && getComputedStyle(document.body).backgroundColor;
    return opaque(page) ? page : 'rgb(255, 255, 255)';
  };
  const texts = [...document.querySelectorAll('svg text, h1, h2, h3, p, th, td, pre, .lines span')].filter(visible);
  const found = texts.map((element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const drawn = element instanceof SVGElement;
    const style = getComputedStyle(element);
    // The box that a label is in, if it is in one.
    const rects = drawn ? [...element.parentNode.querySelectorAll('rect')] : [];
    const around = rects.map((rect) => rect.getBoundingClientRect()).find((rect) =>
      rect.left < right - 2 && left + 2 < rect.right && rect.top < bottom - 2 && top + 2 < rect.bottom);
    return {
      text: element.textContent, drawn, place: [left, top, right, bottom],
      box: around ? [around.left, around.top, around.right, around.bottom] : null,
      contrast: drawn ? contrast(style.fill, behind(element)) : contrast(style.color, behind(element)),
    };
  });
  const svg = document.querySelector('svg');
  const frame = svg ? svg.getBoundingClientRect() : null;
  return {
    texts: found,
    frame: frame && [frame.left, frame.top, frame.right, frame.bottom],
    wide: document.documentElement.scrollWidth, window: innerWidth,
    tall: document.documentElement.scrollHeight,
    scripts: document.scripts.length,
    paper: svg && getComputedStyle(svg.querySelector('.paper')).fill,
  };
})()
