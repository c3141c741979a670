/** Our mark: a line that goes on beyond a break. */
export function mark(): SVGElement {
  const ns = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(ns, 'svg');
  svg.setAttribute('viewBox', '0 0 20 16');
  svg.setAttribute('class', 'mark-of-ours');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(ns, 'path');
  line.setAttribute('d', 'M1.5 8h5M13.5 8h5');
  const dot = document.createElementNS(ns, 'circle');
  dot.setAttribute('cx', '10');
  dot.setAttribute('cy', '8');
  dot.setAttribute('r', '3.4');
  svg.append(line, dot);
  return svg;
}
