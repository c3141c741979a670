import { element } from '../page/element.js';
import { labelled, refusal } from '../page/form.js';
import { mark } from '../page/mark.js';

/** Asks for a token, and tells why, until one is let in. `attempt` throws if it is refused. */
export function gate(refused: unknown, attempt: (token: string) => Promise<void>): HTMLElement {
  const token = element('input', {
    type: 'password',
    required: true,
    autocomplete: 'off',
    spellcheck: 'false',
    class: 'mono',
    'data-testid': 'token',
    'aria-label': 'Token',
  });
  const why = refusal();
  if (refused !== undefined) why.say(refused);
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
            .catch(why.say)
            .finally(() => (enter.disabled = false));
        },
      },
      element('h1', {}, mark(), 'outlive'),
      element('p', {}, 'This server wants a token. ', element('code', {}, 'outlive serve'), ' prints a link that has one.'),
      labelled('Token', token, 'kept in this tab only'),
      why.element,
      element('footer', {}, enter),
    ),
  );
}
