import type { ITheme } from '@xterm/xterm';
import type { Theme } from './theme.js';

/** All colours of both themes have a contrast of at least 4.5:1, except the two that are close to the background. */
const LIGHT: ITheme = {
  background: '#fdfcfa',
  foreground: '#24292e',
  cursor: '#0a705e',
  cursorAccent: '#fdfcfa',
  selectionBackground: '#cfe7df',
  selectionInactiveBackground: '#e4ebe7',
  scrollbarSliderBackground: '#00000022',
  scrollbarSliderHoverBackground: '#00000038',
  scrollbarSliderActiveBackground: '#00000050',
  black: '#24292e',
  red: '#b3261e',
  green: '#256d3d',
  yellow: '#835b00',
  blue: '#1d5fae',
  magenta: '#8a3a8f',
  cyan: '#0a6c74',
  white: '#6b6f73',
  brightBlack: '#5d6166',
  brightRed: '#c2362c',
  brightGreen: '#2b7a45',
  brightYellow: '#8d6400',
  brightBlue: '#2b6cc0',
  brightMagenta: '#9a4a9f',
  brightCyan: '#127780',
  brightWhite: '#3b4045',
};

const DARK: ITheme = {
  background: '#14171a',
  foreground: '#d6dadd',
  cursor: '#5fd4b6',
  cursorAccent: '#14171a',
  selectionBackground: '#2c4a44',
  selectionInactiveBackground: '#283330',
  scrollbarSliderBackground: '#ffffff1f',
  scrollbarSliderHoverBackground: '#ffffff33',
  scrollbarSliderActiveBackground: '#ffffff4d',
  black: '#2a2e33',
  red: '#f0837a',
  green: '#7cc98f',
  yellow: '#dcb862',
  blue: '#7fb2f0',
  magenta: '#d196d6',
  cyan: '#69c6cd',
  white: '#c5cacf',
  brightBlack: '#868d94',
  brightRed: '#f79b93',
  brightGreen: '#95d9a6',
  brightYellow: '#ebcb80',
  brightBlue: '#9cc5f7',
  brightMagenta: '#dfaee3',
  brightCyan: '#88d8de',
  brightWhite: '#f1f3f4',
};

export function terminalColours(theme: Theme): ITheme {
  return theme === 'dark' ? DARK : LIGHT;
}
