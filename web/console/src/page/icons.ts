/** Stroke paths in a 16 × 16 view box. */
const PATHS = {
  plus: 'M8 3v10M3 8h10',
  close: 'M4 4l8 8M12 4l-8 8',
  more: 'M3.4 8h.01M3.6 8h.01M7.9 8h.01M8.1 8h.01M12.4 8h.01M12.6 8h.01',
  splitRight: 'M2.5 3h11v10h-11zM8 3v10',
  splitDown: 'M2.5 3h11v10h-11zM2.5 8h11',
  share: 'M8 9.5V2.5M5 5l3-3 3 3M3 8.5v5h10v-5',
  recording: 'M8 3.2a4.8 4.8 0 1 0 0 9.6a4.8 4.8 0 0 0 0-9.6M8 7.2a.8.8 0 1 0 0 1.6a.8.8 0 0 0 0-1.6',
  people:
    'M6 7.5a2.3 2.3 0 1 0 0-4.6a2.3 2.3 0 0 0 0 4.6M2 13c0-2.4 1.7-3.8 4-3.8s4 1.4 4 3.8M10.6 3.2a2.2 2.2 0 0 1 0 4.1M11.6 9.5c1.5.4 2.4 1.6 2.4 3.5',
  play: 'M5 3.2v9.6l8-4.8z',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  download: 'M8 2.5v7.5M5 7l3 3 3-3M3 13.3h10',
  back: 'M9.5 3.5L5 8l4.5 4.5',
  search: 'M7 2.8a4.2 4.2 0 1 0 0 8.4a4.2 4.2 0 0 0 0-8.4M10.2 10.2l3.3 3.3',
  sun: 'M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 0 0 0-5.6M8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1',
  moon: 'M13 9.6A5.6 5.6 0 0 1 6.4 3 5.4 5.4 0 1 0 13 9.6z',
  help: 'M5.6 5.8a2.4 2.4 0 1 1 3.4 2.2c-.7.3-1 .8-1 1.6M8 12.4h.01',
  command: 'M3 5l3 3-3 3M8 12h5',
} as const;

export type IconName = keyof typeof PATHS;

const SVG = 'http://www.w3.org/2000/svg';

export function icon(name: IconName): SVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('data-icon', name);
  // The element that contains the icon has its own label.
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', PATHS[name]);
  svg.append(path);
  return svg;
}

export function logo(): SVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 20 16');
  svg.setAttribute('class', 'logo');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(SVG, 'path');
  line.setAttribute('d', 'M1.5 8h5M13.5 8h5');
  const dot = document.createElementNS(SVG, 'circle');
  dot.setAttribute('cx', '10');
  dot.setAttribute('cy', '8');
  dot.setAttribute('r', '3.4');
  svg.append(line, dot);
  return svg;
}
