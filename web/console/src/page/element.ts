type Child = Node | string | null | undefined | false;
type Listener = (event: any) => void;

/** Attributes by their names in HTML; `on…` are listeners. What is given as text stays text: nothing here parses HTML. */
export interface Attributes {
  [name: string]: string | number | boolean | Listener | null | undefined;
  style?: never;
}

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(attribute.slice(2), value);
    else if (value === true) made.setAttribute(attribute, '');
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(attribute, String(value));
  }
  made.append(...children.filter(isShown));
  return made;
}

export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter(isShown));
}

/** Writes only what is different, so that a selection in it and a reader's place stay. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

function isShown(child: Child): child is Node | string {
  return child !== null && child !== undefined && child !== false;
}
