import { OutliveError } from '@outlive/client';
import { element, fill } from '../page/element.js';
import { mark } from '../page/mark.js';

/** Asks for a token, and tells why, until one is let in. `attempt` throws if it is refused. */
export function gate(refusal: unknown, attempt: (token: string) => Promise<void>): HTMLElement {
  const token = element('input', {
    type: 'password',
    required: true,
    autocomplete: 'off',
    spellcheck: 'false',
    class: 'mono',
    'data-testid': 'token',
    'aria-label': 'Token',
  });
  const why = element('p', { class: 'refusal', role: 'alert' });
  const say = (error: unknown) => {
    const code = error instanceof OutliveError ? element('code', {}, error.code) : null;
    fill(why, error instanceof Error ? error.message : String(error), code);
  };
  if (refusal !== undefined) say(refusal);
  const enter = element('button', { type: 'submit', class: 'primary' }, 'Enter');
  return element(
    'main',
    { class: 'gate' },
    element(
      'form',
      {
        onsubmit: (event: Event) => {
          event.preventDefault();
          enter.disabled = true;
          attempt(token.value.trim())
            .catch(say)
            .finally(() => (enter.disabled = false));
        },
      },
      element('h1', {}, mark(), 'outlive'),
      element('p', {}, 'This server wants a token. ', element('code', {}, 'outlive serve'), ' prints a link that has one.'),
      element(
        'label',
        { class: 'field' },
        element('span', {}, 'Token', element('span', { class: 'hint' }, 'kept in this tab only')),
        token,
      ),
      why,
      element('footer', {}, enter),
    ),
  );
}
