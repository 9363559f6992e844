// Measures texts and sizes of a page. Evaluated by the developer tools; not a part of the page.
(() => {
  const number = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  // Content of a closed <details> has a position, but is not visible.
  const visible = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && element.checkVisibility();
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
  // Background of a text; null if the text is scrolled out of the window.
  const behind = (element) => {
    const box = element.getClientRects()[0];
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return null;
    const stack = document.elementsFromPoint(x, y);
    for (const other of stack.slice(Math.max(stack.indexOf(element), 0))) {
      const style = getComputedStyle(other);
      if (other.tagName === 'rect' && opaque(style.fill)) return style.fill;
      if (!(other instanceof SVGElement) && opaque(style.backgroundColor)) return style.backgroundColor;
    }
    const page = document.body && getComputedStyle(document.body).backgroundColor;
    return opaque(page) ? page : 'rgb(255, 255, 255)';
  };
  const blocks = 'svg text, h1, h2, h3, p, th, td, pre, .lines span, li, dt, dd, summary';
  const inline = 'code, .tag, main :not(svg) > a';
  const texts = [...document.querySelectorAll(`${blocks}, ${inline}`)].filter(visible);
  const found = texts.map((element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const drawn = element instanceof SVGElement;
    const style = getComputedStyle(element);
    // The box that a label is in, if it is in one.
    const rects = drawn ? [...element.parentNode.querySelectorAll('rect')] : [];
    const around = rects.map((rect) => rect.getBoundingClientRect()).find((rect) =>
      rect.left < right - 2 && left + 2 < rect.right && rect.top < bottom - 2 && top + 2 < rect.bottom);
    const ground = behind(element);
    return {
      text: element.textContent, drawn,
      // An inline text may share lines with others, and a block is inside others.
      inline: element.matches(inline),
      within: texts.flatMap((other, nth) => other !== element && other.contains(element) ? [nth] : []),
      place: [left, top, right, bottom],
      box: around ? [around.left, around.top, around.right, around.bottom] : null,
      contrast: ground && contrast(drawn ? style.fill : style.color, ground),
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
