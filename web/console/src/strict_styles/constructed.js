// Replaces a <style> element in xterm.js: text assigned to it goes into a constructed style sheet of the document.
function __constructedStyle(page) {
  const sheet = new CSSStyleSheet();
  page.adoptedStyleSheets.push(sheet);
  const placeholder = page.createElement('template');
  Object.defineProperty(placeholder, 'textContent', { set: (css) => sheet.replaceSync(css) });
  placeholder.remove = () => {
    page.adoptedStyleSheets = page.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(placeholder);
  };
  return placeholder;
}
