// Stands in for a <style> element in xterm.js: what it is given as text goes into a style sheet of the document.
function __constructedStyle(page) {
  const sheet = new CSSStyleSheet();
  page.adoptedStyleSheets.push(sheet);
  const stand = page.createElement('template');
  Object.defineProperty(stand, 'textContent', { set: (css) => sheet.replaceSync(css) });
  stand.remove = () => {
    page.adoptedStyleSheets = page.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(stand);
  };
  return stand;
}
