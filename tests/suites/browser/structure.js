// Describes the structure of a report. Evaluated by the developer tools; not a part of the page.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const texts = (selector) => all(selector).map((element) => element.textContent);
  // Parts in document order.
  const parts = {
    '.banner': 'banner', '.tiles': 'tiles', '.picture': 'picture', 'main > .findings': 'cards', 'main > details': 'folds',
  };
  const order = all(Object.keys(parts).join(', ')).map((element) =>
    parts[Object.keys(parts).find((selector) => element.matches(selector))]);
  const visible = all('.evidence > ul').map((list) => list.children.length);
  const links = all('.banner a').filter((link) => document.querySelector(`main > .findings > [id="${link.hash.slice(1)}"]`));
  const code = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const backticks = [];
  while (code.nextNode()) if (code.currentNode.data.includes('`')) backticks.push(code.currentNode.data);
  return {
    order: order.filter((part, nth) => part !== order[nth - 1]),
    state: texts('.banner .state').join(), host: texts('.banner h1').join(), facts: texts('.banner dt'),
    tiles: texts('.tiles dt'), cards: all('main > .findings > .check .tag').length,
    fixes: texts('main > .findings > .check strong').filter((text) => text === 'Fix:').length, links: links.length,
    longest: Math.max(0, ...visible), open: texts('details[open] > summary'), folds: texts('main > details > summary'),
    backticks: backticks.join(),
  };
})()
