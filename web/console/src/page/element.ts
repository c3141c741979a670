type Child = Node | string | null | undefined | false;
type EventListener = (event: any) => void;

/** HTML attributes by name; `on…` are event listeners. Strings become text nodes: nothing here parses HTML. */
export interface Attributes {
  [name: string]: string | number | boolean | EventListener | null | undefined;
  style?: never;
}

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const created = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (typeof value === 'function') created.addEventListener(attribute.slice(2), value);
    else if (value === true) created.setAttribute(attribute, '');
    else if (value !== false && value !== null && value !== undefined) created.setAttribute(attribute, String(value));
  }
  created.append(...children.filter(isPresent));
  return created;
}

/** Replaces all children. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter(isPresent));
}

/** Writes only changed text, which keeps a selection in it and the position of screen readers. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

function isPresent(child: Child): child is Node | string {
  return child !== null && child !== undefined && child !== false;
}
